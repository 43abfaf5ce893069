from sonorant.audio.conditioning import ConditionConfig

UNCONDITIONED = ConditionConfig(margin=None, longest_pause=None, remove_dc=False, loudness=None, true_peak=None)
