"""Words that say nothing about what a query is after, by language. Only queries drop them; every word is indexed.

Short on purpose: articles, pronouns, prepositions, auxiliaries, question words. Folded as `terms` folds.
"""

STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "ar": """
            التي الذي الى الي ان او اين على علي عن في كان كانت كم كيف لا لم لماذا ما ماذا متي من هذا هذه هل هو
            هي و
        """,
        "de": """
            aber als am an auch auf aus bei bin bis da das dass dem den der des die dies diese dieser dieses
            doch du ein eine einem einen einer eines er es fur haben hat ich ihr im in ist ja kann mein mit nach
            nicht noch nur ob oder sein sich sie sind so uber um und uns von vor wann war waren warum was welche
            welcher welches wenn wer werden wie wieviel wir wird wo zu zum zur
        """,
        "en": """
            a an and are as at be been but by can could did do does for from had has have how i if in into is it
            its me my no not of on or our shall should so some such than that the their them then there these
            they this those to us was we were what when where which while who whom whose why will with would you
            your
        """,
        "es": """
            a al ante como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde e el ella
            ellas ellos en entre era es esa ese eso esta este esto fue ha hay la las le les lo los mas me mi muy
            no nos o para pero por porque que quien quienes se ser si sin sobre son su sus tambien te tiene tu
            un una uno y ya
        """,
        "fr": """
            a au aux avec ce ces cet cette comme comment d dans de des du elle elles en est et eu il ils je l la
            le les leur leurs lui ma mais me mes mon ne nos notre nous on ou par pas pour pourquoi qu quand que
            quel quelle quelles quels qui quoi sa se ses son sont sur ta te tes ton tu un une vos votre vous y
        """,
        "it": """
            a ai al alla alle allo anche che chi ci come con cosa da dal dalla dei del della delle dello di dove
            e ed era gli ha i il in io la le lei lo loro lui ma mi ne negli nei nel nella no noi non o per
            perche piu quale quali quando quanti quanto questa questo se si sono su sua suo tra un una uno
        """,
        "nl": """
            aan als bij dan dat de deze die dit door een en er had heb het hij hoe hoeveel ik in is je kan maar
            met mij naar niet nog of om onder ons ook op over te tot u uit van voor waar waarom wanneer waren
            was wat we welke wie wij wordt zal ze zich zij zijn zo
        """,
        "pt": """
            a ao aos as com como da das de do dos e ela elas ele eles em entre era essa esse esta este eu foi ha
            isso isto ja la lhe mais mas me na nao nas no nos nossa nosso o onde os ou para pela pelo por porque
            quais qual quando quanto quantos que quem sao se sem ser seu sua tambem te tem um uma voce
        """,
        "ru": """
            а без был была были было быть в вам вас во вы где да для до его ее если есть еще же за и из или им
            их к как какая какие какой когда кто ли мне мы на над не него нее нет ни но о об он она они оно от
            по под при с сколько со так также там то только ты у что чтобы эта эти это этот я
        """,
    }.items()
}
