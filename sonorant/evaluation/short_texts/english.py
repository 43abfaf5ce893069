"""English short texts and patterns for sentences. Written for this project."""

import re


def _words(texts: str) -> list[str]:
    return texts.split()


def _phrases(texts: str) -> list[str]:
    return re.split(r"\s*[|\n]\s*", texts.strip())


KINDS = {
    "words": _words("""
        Apple. Bridge. Candle. Door. Elephant. Fish. Garden. House. Island. Jungle. Kitchen. Lemon. Mouth. Night.
        Orange. Photograph. Question. Strength. Thursday. Umbrella. Village. Water. Yellow. Measure.
    """),
    "numbers": _words("0 1 2 3 4 5 6 7 8 9 10 11 12 15 20 36 70 100 250 1,000 First. Third. Half. Twice."),
    "letters": _phrases("""
        A. | B. | C. | F. | G. | H. | J. | K. | M. | O. | Q. | S. | U. | W. | X. | Y. | Z. | A, B, C. | X, Y, Z.
        D, T, P. | M, N, L.
    """),
    "names": _phrases("""
        Anna. | Benjamin. | Charlotte. | Doctor Brown. | Edward Stone. | Fatima. | George. | Hannah Miller. | Isabel.
        James. | Miss Taylor. | London. | Paris. | Chicago. | Toronto. | Japan. | Mexico. | Mount Everest.
        Saint Peter. | Victoria.
    """),
    "yes_no": _phrases("""
        Yes. | No. | Yes! | No! | Yes? | No? | Yes, please. | No, thanks. | Yes, of course. | Oh no. | Maybe. | Never.
        Okay. | Sure. | Not yet. | All right.
    """),
    "repeats": _phrases("""
        No no no. | Yes, yes, yes. | Ding ding ding. | Bye bye. | Very, very good. | Far, far away. | Again and again.
        Ten, ten, ten. | Wait, wait, wait. | Knock knock. | Day by day. | Side by side. | Round and round.
        Go, go, go, go. | Five five five, five five. | Never, never, never.
    """),
    "tongue_twisters": _phrases("""
        Six thick sticks stuck in the sixth brick. | Fresh fried flat fish for Friday's feast.
        Sheila's shop sold seven soft silk shawls. | Three free throws through the thin fence.
        The black bug's bag of blue bulbs broke. | Crisp crusts crackle as the clerks crunch.
        Which witch wished for which white watch? | A proper copper pot for a proper cup of cocoa.
        Red lorries roll rarely on yellow roads. | Greek grapes grow green on great gray gates.
        Thirty thirsty brothers breathed through thick cloths. | Selfish sharks share shellfish on the seashore.
    """),
}

SLOTS = {
    "det": _words("the a this our my her his their every your one"),
    "name": _words("""
        Alice Robert Sarah Michael Emma David Julia Thomas Rachel George Helen Walter Nancy Frank Linda Oscar Ruth
        Victor Joyce Hugo
    """),
    "adj": _words("""
        old young quiet yellow heavy strange cheap broken warm thirsty narrow shy golden huge rough smooth foreign
        curious junior famous thick purple loyal clever vague frozen brown weary childish gentle square fresh awkward
        cruel sour noisy genuine dull polite hollow
    """),
    "noun": _words("""
        teacher garden window machine river judge village kitchen youth garage orange bridge treasure monkey doctor
        vase engine shower toy voyage pillow father church guitar bath measure leaf thumb joke horse candle thief coin
        watch ship cloth mouth farmer singer queen beggar magician zebra elbow hunter onion crowd shadow journal pigeon
        wolf oyster cousin camera letter basket tractor stranger piano brush
    """),
    "person": _words("""
        teacher judge doctor farmer singer queen hunter cousin stranger baker child brother neighbor captain youth
        pilot nurse soldier guest butcher
    """),
    "did": _words("""
        watched carried painted pushed borrowed measured noticed followed bought threw caught found sold kept lost
        enjoyed changed joined washed brought destroyed thanked shook chose drew hid moved opened pulled remembered
        repaired touched visited wanted wrapped heard judged avoided choked weighed
    """),
    "do": _words("""
        watch carry paint push borrow measure notice follow buy throw catch find sell keep lose enjoy change join wash
        bring destroy thank shake choose draw hide move open pull remember repair touch visit want wrap hear judge
        avoid weigh
    """),
    "went": _words("""
        walked jumped slept laughed waited arrived danced shouted swam vanished stood whispered yawned fell thought
        coughed rejoiced argued
    """),
    "place": _phrases("""
        in the garden | behind the church | near the river | under the bridge | on the beach | at the station
        across the field | above the village | through the gate | beside the fire | outside the house
        along the shore | inside the cave | between two trees | beyond the valley | against the wall
        around the fountain | at the edge of the woods | on the third floor | in a large kitchen
    """),
    "time": _phrases("""
        yesterday | last night | on Thursday | in the morning | before noon | after the storm | every year
        in January | during the voyage | at midnight | for a whole hour | without a sound | with great pleasure
        all day long | once again | just in time | for the first time | at five o'clock
    """),
    "count": _words("two three four five six seven eight nine ten eleven twelve twenty"),
    "many": _words("""
        gardens horses bridges watches boys coins leaves brushes thieves judges vases oranges months cloths engines
        mouths cups cakes photographs boxes wolves pages
    """),
    "said": _words("said thought knew believed heard hoped agreed wrote"),
    "adverb": _words("slowly usually hardly quickly truly rarely gently calmly strangely loudly nearly finally"),
}
PATTERNS = _phrases("""
    {name} {did} {det} {adj} {noun} {place}.
    {det} {adj} {person} {adverb} {did} the {noun}.
    {time} {name} {did} {count} {many}.
    Did {name} {do} {det} {noun} {time}?
    {det} {person} {went} {place} {time}.
    {name} {said} that {det} {noun} was {adj}.
    Please {do} the {adj} {noun} and {do} the {many}.
    {count} {adj} {many} {went} {place}.
    When {name} {went}, {det} {person} {did} {det} {noun}.
    Why did {det} {person} {do} {det} {adj} {noun}?
    There were {count} {many} {place}, and {name} {did} them.
    {name} and {name} {adverb} {went} {time}.
    Nobody {said} that {name} {did} the {noun} {time}.
    {det} {noun} {place} was {adj} and {adj}.
    If you {do} {det} {noun}, {name} will {do} {det} {noun}.
    {name} {went}.
""")
