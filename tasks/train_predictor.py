"""Stage `train_predictor`: train the voice's predictor (acoustic model or language model).

The training runs under torchrun and resumes in runs/train_<kind>/<fingerprint>.
"""

from sonorant.families.family import VoiceConfig
from sonorant.plugins import load_family
from tasks import params
from tasks.stage import INPUTS, run
from tasks.training import train_kind, training_parser


def main() -> None:
    arguments = training_parser("train_predictor", __doc__, codes=INPUTS["codes"]).parse_args()
    kind = load_family(params.load("voice", VoiceConfig).family).predictor
    train_kind(kind, arguments, arguments.codes if kind.learns_codes else None)


if __name__ == "__main__":
    run(main)
