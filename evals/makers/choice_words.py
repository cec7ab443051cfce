"""The items of choices.jsonl in English: a beginning, its right end, and three wrong ones, by kind."""

from __future__ import annotations

ENGLISH = {
    "fact": """
The capital of Switzerland is|Bern|Zurich|Geneva|Basel
The planet nearest to the sun is|Mercury|Venus|Mars|Earth
The capital of Morocco is|Rabat|Tangier|Fez|Cairo
The capital of New Zealand is|Wellington|Auckland|Sydney|Hamilton
The capital of Turkey is|Ankara|Istanbul|Izmir|Bursa
The capital of Brazil is|Brasilia|Rio|Salvador|Recife
The capital of Egypt is|Cairo|Lagos|Tunis|Nairobi
The capital of Canada is|Ottawa|Toronto|Montreal|Vancouver
The capital of Australia is|Canberra|Sydney|Perth|Melbourne
The largest ocean is the|Pacific|Atlantic|Arctic|Indian
The organ that pumps blood is the|heart|liver|lung|stomach
The organ that we hear with is the|ear|eye|nose|skin
A spider has|eight legs|six legs|ten legs|four legs
An insect has|six legs|eight legs|four legs|two legs
An octagon has|eight sides|six sides|five sides|ten sides
A hexagon has|six sides|five sides|eight sides|seven sides
A year has|twelve months|ten months|eleven months|fourteen months
An hour has|60 minutes|100 minutes|24 minutes|50 minutes
A minute has|60 seconds|100 seconds|30 seconds|90 seconds
The gas that plants take from the air is|carbon dioxide|oxygen|helium|hydrogen
The metal that a magnet pulls is|iron|gold|silver|copper
The sun rises in the|east|west|north|south
A baby goose is called a|gosling|duckling|chick|cygnet
A baby cat is called a|kitten|puppy|cub|lamb
A baby cow is called a|calf|foal|lamb|chick
A baby sheep is called a|lamb|kid|calf|piglet
Chocolate is made from|cocoa|coffee|vanilla|wheat
Raisins are dried|grapes|plums|apricots|dates
Linen is made from|flax|cotton|silk|wool
Wine is made from|grapes|wheat|potatoes|olives
Paper is made from|wood|wool|sand|iron
Bricks are made from|clay|sand|wood|chalk
The person who shoes horses is a|blacksmith|cobbler|rider|tailor
The person who mends teeth is a|dentist|barber|surgeon|tailor
The person who keeps bees is a|beekeeper|gardener|butcher|shepherd
The person who cooks in a restaurant is a|chef|waiter|guest|baker
The fastest animal on land is the|cheetah|horse|lion|rabbit
The tallest animal is the|giraffe|elephant|camel|horse
The largest animal in the sea is the|blue whale|great shark|sea turtle|giant squid
The hardest of all natural stones is|diamond|granite|marble|quartz
Penguins live mostly in the|south|north|desert|jungle
The month with the fewest days is|February|January|April|June
""",
    "opposite": """
The opposite of humble is|proud|modest|shy|quiet
The opposite of scarce is|plentiful|rare|costly|missing
The opposite of barren is|fertile|empty|desert|dusty
The opposite of vague is|precise|unclear|misty|strange
The opposite of clumsy is|skilful|awkward|careless|heavy
The opposite of idle is|busy|lazy|calm|useless
The opposite of brave is|cowardly|fearless|honest|careful
The opposite of ancient is|modern|old|historic|ruined
The opposite of rough is|smooth|coarse|hard|bumpy
The opposite of generous is|stingy|giving|kind|gentle
The opposite of profit is|loss|gain|money|income
The opposite of ascend is|descend|climb|mount|follow
The opposite of borrow is|lend|take|owe|keep
The opposite of hollow is|solid|empty|deep|round
The opposite of accept is|refuse|receive|agree|allow
The opposite of remember is|forget|recall|think|learn
The opposite of stale is|fresh|old|dry|hard
The opposite of steep is|gentle|sheer|high|rocky
The opposite of thick is|thin|dense|fat|round
The opposite of praise is|blame|honour|thank|admire
The opposite of light is|heavy|bright|airy|thin
The opposite of sharp is|blunt|pointed|fine|quick
The opposite of tight is|loose|narrow|firm|short
The opposite of guilty is|innocent|ashamed|wicked|sorry
The opposite of fragile is|sturdy|delicate|glassy|broken
The opposite of crooked is|straight|bent|twisted|broken
The opposite of expand is|shrink|swell|spread|explode
The opposite of temporary is|permanent|brief|current|sudden
The opposite of polite is|rude|kind|formal|friendly
The opposite of export is|import|trade|sell|transport
The opposite of raw is|cooked|fresh|bloody|cold
The opposite of timid is|bold|shy|afraid|gentle
The opposite of drowsy is|alert|sleepy|tired|lazy
The opposite of tame is|wild|gentle|pet|trained
The opposite of simple is|complex|easy|plain|common
The opposite of hide is|show|cover|seek|bury
The opposite of push is|pull|press|lift|throw
The opposite of joy is|sorrow|delight|laughter|pleasure
The opposite of laugh is|cry|smile|joke|shout
The opposite of sour is|sweet|bitter|acid|fresh
The opposite of cheap is|costly|poor|low|sold
The opposite of ripe is|green|ready|juicy|mature
""",
    "category": """
A penguin is a kind of|bird|fish|mammal|seal
An eel is a kind of|fish|snake|worm|reptile
An oak is a kind of|tree|flower|grass|mushroom
An orchid is a kind of|flower|tree|fruit|spice
A seahorse is a kind of|fish|horse|insect|mammal
A turtle is a kind of|reptile|fish|mammal|amphibian
A whale is a kind of|mammal|fish|bird|reptile
A bat is a kind of|mammal|bird|insect|reptile
A frog is a kind of|amphibian|reptile|mammal|insect
A lizard is a kind of|reptile|mammal|amphibian|bird
A scorpion is related to the|spider|crab|ant|snake
A tomato is botanically a|fruit|root|leaf|grain
A peanut is botanically a|bean|nut|root|fruit
Rice is a kind of|grain|fruit|nut|spice
Pepper is a kind of|spice|drink|grain|sauce
Silver is a kind of|metal|wood|plastic|glass
Bamboo is a kind of|grass|tree|bush|flower
An olive is a kind of|fruit|flower|spice|grain
Oxygen is a kind of|gas|metal|liquid|rock
Mercury is a kind of|metal|gas|rock|wood
Soccer is a kind of|sport|dance|job|machine
A waltz is a kind of|dance|song|drink|game
A sonnet is a kind of|poem|novel|song|play
A harp is a kind of|instrument|weapon|ship|animal
A rapier is a kind of|sword|bow|shield|horse
A ring is a kind of|jewellery|clothing|furniture|weapon
A toad is a kind of|amphibian|reptile|fish|mammal
A canoe is a kind of|boat|plane|train|car
A cottage is a kind of|house|boat|garden|road
A sandal is a kind of|shoe|hat|coat|glove
A beret is a kind of|hat|shoe|coat|bag
A spoon is a kind of|cutlery|furniture|clothing|jewellery
Cinnamon is a kind of|spice|fruit|drink|flower
A dolphin is a kind of|mammal|fish|shark|bird
Anger is a kind of|emotion|illness|colour|sound
Wheat is a kind of|grain|fruit|bread|nut
Coal is a kind of|fuel|metal|acid|plant
A hurricane is a kind of|storm|fire|flood|earthquake
Diamond is a kind of|mineral|metal|glass|plastic
An ampere is a unit of|current|weight|length|time
A metre is a unit of|length|weight|time|heat
A litre is a unit of|volume|length|time|weight
""",
    "sequence": """
Monday, Wednesday, Friday,|Sunday|Saturday|Monday|Thursday
Friday, Saturday, Sunday,|Monday|Tuesday|Friday|Thursday
January, March, May,|July|June|August|April
August, September, October,|November|December|July|January
May, June, July,|August|September|April|October
4, 8, 12, 16,|20|18|24|17
13, 16, 19, 22,|25|24|23|26
50, 45, 40, 35,|30|25|34|20
6, 12, 18, 24,|30|28|36|26
1, 3, 5, 7,|9|8|10|11
1, 3, 9, 27,|81|54|36|30
31, 29, 27, 25,|23|24|22|21
20, 18, 16, 14,|12|13|10|15
90, 81, 72, 63,|54|53|62|45
1, 4, 9, 16,|25|20|24|32
1, 1, 2, 3, 5,|8|6|7|9
64, 32, 16, 8,|4|2|6|1
7, 14, 21, 28,|35|30|42|29
B, D, F, H,|J|I|K|G
M, N, O, P,|Q|R|S|T
A, C, E, G,|I|H|J|K
Z, Y, X, W,|V|U|T|A
sixth, fifth, fourth,|third|second|last|sixth
summer, autumn, winter,|spring|summer|autumn|snow
2, 3, 5, 7,|11|9|10|8
baby, child, teenager,|adult|infant|toddler|boy
breakfast, lunch,|dinner|breakfast|snack|kitchen
second, minute, hour,|day|year|week|clock
day, week, month,|year|hour|minute|Monday
11, 22, 33, 44,|55|66|45|54
egg, caterpillar, cocoon,|butterfly|spider|worm|bird
cold, cool, warm,|hot|icy|mild|wet
tiny, small, large,|huge|little|short|middle
never, sometimes, often,|always|rarely|maybe|once
17, 27, 37, 47,|57|48|67|50
whisper, talk,|shout|listen|sleep|hear
crawl, walk,|run|sit|lie|sleep
village, town,|city|house|street|farm
past, present,|future|history|gift|yesterday
two, four, six,|eight|seven|ten|nine
bronze, silver,|gold|iron|copper|tin
thousand, hundred, ten,|one|zero|five|million
""",
    "cause": """
The wax was held over the flame, so it|melted|burst|grew|froze
The iron gate stood in the rain for years, so it|rusted|melted|rotted|grew
She had not eaten all day, so she was|hungry|thirsty|full|angry
The wooden fence stood in the rain for years, so it|rotted|rusted|melted|grew
Somebody pulled the plug, so the lamp went|out|on|up|bright
The plant got no water for weeks, so it|died|grew|bloomed|sank
The river rose above its banks, so the fields were|flooded|burnt|dry|sold
The road was icy, so the car|slid|flew|burned|sank
She studied hard, so she|passed|failed|cheated|forgot
The baby was hungry, so it|cried|laughed|slept|sang
The scales showed too much, so he took some|off|on|up|in
It was dark in the room, so she turned on the|lamp|radio|oven|tap
The tyre was flat, so he used a|pump|brush|spoon|ladder
The floor was dirty, so she took a|broom|fork|pencil|pillow
The door was locked, so he needed a|key|bell|coat|map
The wind was strong, so the kite|rose|slept|sank|melted
He had a toothache, so he went to the|dentist|baker|bank|library
The house was on fire, so they called the|firemen|postman|teacher|gardener
Her shoes were too small, so her feet|hurt|froze|grew|itched
The milk stood in the warm kitchen for days, so it turned|sour|sweet|cold|fresh
The alarm did not ring, so she woke up|late|early|happy|often
There was no wind, so the sailing boat|stopped|raced|sank|turned
The bus broke down, so they had to|walk|drive|swim|fly
The stone was thrown into the lake, so it|sank|floated|flew|melted
The wood was thrown into the lake, so it|floated|sank|melted|burned
The water was heated to 100 degrees, so it|boiled|froze|cooled|sank
The water was put into the freezer, so it|froze|boiled|melted|dried
The balloon was pricked with a needle, so it|burst|grew|rose|shone
He told a funny joke, so everybody|laughed|cried|slept|left
The clock was ten minutes slow, so she came too|late|early|often|far
The music was too loud, so he covered his|ears|eyes|hands|feet
The light was too bright, so she closed her|eyes|ears|mouth|book
The dog saw a cat, so it began to|bark|read|sing|rain
It snowed all night, so in the morning the garden was|white|green|yellow|black
The sun went down, so it became|dark|bright|noon|loud
The rope was too short, so they tied on another|piece|bell|boat|horse
The shirt was washed and hung in the sun, so it got|dry|wet|dirty|torn
She put sugar in the tea, so it tasted|sweet|sour|salty|bitter
He put too much salt in the soup, so it tasted|salty|sweet|sour|fresh
He did not sleep at night, so in the morning he was|sleepy|awake|hungry|strong
They were lost in the city, so they asked for|directions|dessert|money|silence
The team scored more goals, so it|won|lost|quit|tied
""",
}
