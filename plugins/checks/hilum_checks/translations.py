"""Translate the usual words of rules in German, Spanish, Portuguese, French, Russian, Korean and Japanese.

Only the words of the forms are translated; a sentence with any other word remains advice, as in
English. A sentence that says when it holds is not translated.
"""

from __future__ import annotations

import re
from functools import cache

# Verbs in Spanish and Portuguese: a word such as "other" is none.
_VERBS = (
    r"(?:editar|modificar|tocar|cambiar|alterar|borrar|eliminar|excluir|apagar|deletar|(?:re)?crear"
    r"|criar|reintroducir|usar|utilizar|ejecutar|correr|executar|rodar|instalar|commitear|commitar"
    r"|pushear|hacer|fazer|leer|ler"
    # Forms with which an order is given: "no edites", "não leia".
    r"|edit[ea]s?|modifi(?:ques?|que[mn])|toques?|cambies?|borres?|elimines?|ejecutes?|crees?|instales?"
    r"|leas?|lea[mn]|leia[ms]?)"
)
# Words with which a sentence may limit itself, unless a phrase below contains them.
_LIMITS = (
    r"\b(?:außer|wenn|falls|sofern|nur|excepto|salvo|cuando|solo|sólo|si|sauf|quand|seulement|exceto|quando"
    r"|apenas|somente|кроме|если|только|когда|при|ausnahmen?"
    r"|excepción|excepciones|exceção|исключени\w+)\b|예외|例外|다만|경우|제외|ただし|場合|以外|のみ|だけ"
)
# Names in a German sentence: "`a` und `b`".
_GERMAN_NAMES = r"(⟦\d+⟧(?:(?:,| und| oder|, oder) ⟦\d+⟧)*)"
_GERMAN_NEVER = r"(?:niemals|nie|nicht)"
_GERMAN_SUBJECT = rf"^(?:(?:der|die|das) )?(?:(?:datei(?:en)?|ordner|verzeichnis|befehle?|kommandos?|option) )?{_GERMAN_NAMES}"
# What must not be done to something, as in "darf nicht gelesen werden".
_GERMAN_PARTICIPLES = (
    ("gelesen", "read"),
    ("(?:ge|ver)ändert|bearbeitet|modifiziert|angefasst|überschrieben", "edit"),
    ("gelöscht|entfernt", "delete"),
    ("commit+et|eingecheckt", "commit"),
    ("ausgeführt|gestartet|aufgerufen", "run"),
    ("verwendet|benutzt|genutzt", "use"),
)
_GERMAN_BEFORE = r"vor (?:jedem|dem|einem)"
_PHRASES: tuple[tuple[str, str], ...] = (
    # German: "Vor dem Commit `a` ausführen", "Führe vor jedem Push `a` aus".
    *(
        phrase
        for noun, verb in (("commit(?:ten)?", "committing"), ("push(?:en)?", "pushing"))
        for phrase in (
            (
                rf"^{_GERMAN_BEFORE} {noun} (?:(?:immer|stets|zuerst|erst) )*{_GERMAN_NAMES}"
                r" (?:ausführen|starten|laufen lassen)\b",
                rf"run \1 before {verb}",
            ),
            (
                rf"^führe? (?:(?:immer|stets) )?{_GERMAN_BEFORE} {noun} {_GERMAN_NAMES} aus\b",
                rf"run \1 before {verb}",
            ),
            (rf"\b{_GERMAN_BEFORE} {noun}\b", f"before {verb}"),
        )
    ),
    # "Pushe niemals auf `main`", "Force-Push ist verboten".
    (rf"^pushe? {_GERMAN_NEVER}\b", "never push"),
    (rf"^commit+e {_GERMAN_NEVER}\b", "never commit"),
    (
        r"^force-push(?:es|en|s)? (?:ist|sind) (?:streng(?:stens)? )?"
        r"(?:verboten|untersagt|nicht erlaubt)\b",
        "never force-push",
    ),
    (r"\bnach (?=⟦|main\b|master\b|develop\b)", "to "),
    # German: "Führe `a` niemals aus", "`a` darf nicht gelesen werden", "`a` ist verboten".
    (rf"\bführe? {_GERMAN_NEVER} ([^.;:]*?⟦\d+⟧) aus\b", r"never run \1"),
    (rf"\bführe? {_GERMAN_NAMES} {_GERMAN_NEVER} aus\b", r"never run \1"),
    *(
        (
            rf"{_GERMAN_SUBJECT} (?:darf|dürfen) {_GERMAN_NEVER} (?:{participle}) werden\b",
            rf"never {verb} \1",
        )
        for participle, verb in _GERMAN_PARTICIPLES
    ),
    (
        rf"{_GERMAN_SUBJECT} (?:ist|sind) (?:streng(?:stens)? )?(?:verboten|untersagt)\b",
        r"never use \1",
    ),
    (
        r"^(ändere|verändere|bearbeite|lösche|lies|öffne|verwende|benutze|nutze|installiere|starte)"
        rf" {_GERMAN_NAMES} {_GERMAN_NEVER}\b",
        r"never \1 \2",
    ),
    (
        r"^(ändere|verändere|bearbeite|lösche|lies|öffne|verwende|benutze|nutze|installiere|starte)"
        rf" {_GERMAN_NEVER}\b",
        r"never \1",
    ),
    # German, where the verb is at the end: "`dist/` nicht bearbeiten".
    (r"((?:⟦\d+⟧|[\w-]+)(?: (?:⟦\d+⟧|[\w-]+))*) nicht ([a-zäöü]+en)\b", r"never \2 \1"),
    (r"\b(?:niemals|nie)\b", "never"),
    (r"\bkeine?[nrms]?\b", "no"),
    (r"\bnicht\b", "not"),
    (
        r"\bohne (?:meine |deine |vorherige |explizite |ausdrückliche )*"
        r"(?:zustimmung|bestätigung|freigabe|erlaubnis|rückfrage|genehmigung)\b",
        "without approval",
    ),
    (r",? ohne (?:(?:vorher|zuerst|mich|uns) )*(?:zu fragen|nachzufragen)", " without approval"),
    (r"\b(?:lesen|lies|lese)\b", "read"),
    (r"\b(?:öffnen|öffne)\b", "open"),
    (r"\bpakete?\b", "packages"),
    (r"\babhängigkeiten\b", "dependencies"),
    (r"\b(?:commit(?:t)?en|einchecken)\b", "commit"),
    (r"\bpushen\b", "push"),
    (
        r"\b(?:(?:ver)?ändern?|bearbeiten?|modifizieren?|anfassen|verändere|ändere|bearbeite)\b",
        "edit",
    ),
    (r"\b(?:löschen|lösche)\b", "delete"),
    (r"\b(?:ausführen|starten|starte)\b", "run"),
    (r"\b(?:verwenden?|benutzen?|nutzen?)\b", "use"),
    (r"\b(?:installieren|installiere)\b", "install"),
    (r"\b(?:dateien|datei)\b", "files"),
    (r"\b(?:bestehende|vorhandene|existierende)[nr]?\b", "existing"),
    (r"\boder\b", "or"),
    (r"\bund\b", "and"),
    (r"\bauf\b", "to"),
    (r"\bdirekt\b", "directly"),
    (r"\b(?:manuell|von hand)\b", "manually"),
    (r"\bimmer\b", "always"),
    (r"\bstatt\b", "instead of"),
    # Spanish and Portuguese
    (r"\bnunca\b", "never"),
    (rf"\b(?:não|no) (?={_VERBS}\b)", "do not "),
    (
        r"\bs(?:in|em) (?:(?:mi|tu|minha|sua|previa|explícita|pedir|a|el|la) )*"
        r"(?:permiso|aprobación|autorización|confirmación|preguntar|permissão|aprovação|autorização|confirmação)\b",
        "without approval",
    ),
    (
        r"\b(?:a menos que|salvo que) (?:se |el usuario |o usuário )?(?:lo |te )?(?:pida|solicite|peça)[a-z]*\b",
        "unless asked",
    ),
    (r"\b(?:commitear|commitar|(?:hacer|fazer) commits?(?: (?:de|do|da))?)\b", "commit"),
    (r"\b(?:hacer|fazer) push (?:a|para|em|na|no)\b", "push to"),
    (r"\b(?:pushear|(?:hacer|fazer) push)\b", "push"),
    (r"\b(?:editar|modificar|tocar|cambiar|alterar)\b", "edit"),
    (r"\b(?:edit[ea]s?|modifi(?:ques?|que[mn])|toques?|cambies?)\b", "edit"),
    (r"\b(?:borrar|eliminar|excluir|apagar|deletar|borres?|elimines?)\b", "delete"),
    (r"\b(?:re)?(?:crear|criar|crees?)\b", "create"),
    (r"\b(?:leer|ler|leas?|lea[mn]|leia[ms]?)\b", "read"),
    (
        r"\b(?:fuera del|fora do|en dehors du) (?:proyecto|projeto|projet|repositorio|repositório|dépôt)\b",
        "outside the project",
    ),
    (r"\breintroducir\b", "reintroduce"),
    (r"\b(?:usar|utilizar)\b", "use"),
    (r"\b(?:ejecutar|correr|executar|rodar|ejecutes?)\b", "run"),
    (r"\b(?:instalar|instales?)\b", "install"),
    (r"\b(?:el|los|o|os) (?=(?:archivo|fichero|arquivo)s?\b)", ""),
    (r"\b(?:archivo|fichero|arquivo)\b", "file"),
    (r"\b(?:archivos|ficheros|arquivos)\b", "files"),
    (r"\b(?:existentes|existants|existantes)\b", "existing"),
    (r"\bsin (?=⟦\d+⟧)", "no "),
    (r"\bexpl[ií]cito\b", ""),
    (r"\ben typescript\b", ""),
    (r"\b(?:en|em) (?=⟦|la |el |a )", "in "),
    (r"\b(?:ni|nem|ou)\b", "or"),
    (r"\b(?:directamente|diretamente)\b", "directly"),
    (r"\b(?:manualmente|a mano)\b", "manually"),
    (r"\bantes de\b", "before"),
    (r"\bsiempre\b|\bsempre\b", "always"),
    # French
    (r"\bne (?:jamais|pas)\b", "never"),
    (r"\b(?:ne |n')(\w+) (?:jamais|pas)\b", r"never \1"),
    (r"\b(?:lire|lis|lisez)\b", "read"),
    (r"\b(?:le|les) (?=fichiers?\b)", ""),
    (r"\bfichier\b", "file"),
    (
        r"\bsans (?:(?:mon|ton|votre|l'|une|demander|autre) ?)*"
        r"(?:accord|autorisation|approbation|validation|confirmation)\b",
        "without approval",
    ),
    (r"\b(?:modifier|éditer|toucher|modifi(?:e|ez)|édit(?:e|ez)|touch(?:e|ez))\b", "edit"),
    (r"\b(?:supprimer|supprim(?:e|ez))\b", "delete"),
    (r"\b(?:créer|cré(?:e|ez))\b", "create"),
    (r"\b(?:utiliser|utilis(?:e|ez))\b", "use"),
    (r"\b(?:exécuter|lancer|exécut(?:e|ez)|lanc(?:e|ez))\b", "run"),
    (r"\b(?:commiter|committer|commit(?:e|ez))\b", "commit"),
    (r"\b(?:pousser|pouss(?:e|ez))\b", "push"),
    (r"\bfichiers\b", "files"),
    (r"\bdans\b", "in"),
    (r"\bdirectement\b", "directly"),
    # Russian
    (r"\b(?:никогда не|нельзя|запрещено|запрещается|не)\b", "never"),
    (
        r"\bбез (?:явного |моего |твоего )*(?:разрешения|подтверждения|одобрения|согласия)\b",
        "without approval",
    ),
    (r"\bкоммит(?:ь|ить|ьте|ай|айте)\b", "commit"),
    (r"\bпуш(?:ь|ить|ьте|и)\b", "push"),
    (
        r"\b(?:редактир(?:уй|овать|уйте)|изменя(?:й|ть|йте)|меня(?:й|ть|йте)|трога(?:й|ть|йте)|прав(?:ь|ить))\b",
        "edit",
    ),
    (r"\bудаля(?:й|ть|йте)\b", "delete"),
    (r"\bиспольз(?:уй|овать|уйте)\b", "use"),
    (r"\b(?:запуска(?:й|ть|йте)|выполня(?:й|ть|йте))\b", "run"),
    (r"\bсоздава(?:й|ть|йте)\b", "create"),
    (r"\bустанавлива(?:й|ть|йте)\b", "install"),
    (r"\bчита(?:й|ть|йте)\b", "read"),
    (r"\bфайл(?:ы|ов|а)?\b", "files"),
    (r"\bили\b|\bни\b", "or"),
    (r"\bи\b", "and"),
    (r"\bв\b", "in"),
    (r"\bвручную\b", "manually"),
    (r"\bперед (?:каждым )?коммитом\b", "before committing"),
    (r"\bвсегда\b", "always"),
    (r"\bвместо\b", "instead of"),
    # Korean: what must not be done is at the end.
    (
        r"(?:은|는|을|를)?\s*사용자가 (?:명시적으로 )?(?:요청|승인|허락|지시|명시)\S*(?: \S+)? (?:경우에?만|때만)"
        r"\s*(?:수행|실행|진행|한다|합니다)?\S*",
        " only when asked",
    ),
    (
        r"사용자가 (?:명시|요청|승인)하지 않은 ([a-z, 가-힣]*?)(?:은|는) 하지 않는다",
        r"\1 only when asked",
    ),
    (
        r"(?:사용자(?:의|가)? |명시적(?:인)? |사전 )*(?:승인|허락|동의|확인|요청) 없이",
        " without approval ",
    ),
    (
        r"(?:하지|하여서는|해서는|하면)\s*(?:마세요|말 것|마라|말아야 한다|않는다|않습니다|않기"
        r"|안 ?된다|안 ?됩니다|마십시오)",
        " never",
    ),
    (r"(?:을|를|은|는)?\s*(?<!않)금지(?:한다|합니다|됩니다|됨)?", " never"),
    (r"절대(?:로)?|모든|항상", " "),
    (r"반드시", " must "),
    (r"커밋 메시지(?:는|에|를|의)?", " commit messages "),
    (r"커밋(?:을|은|는)?", " commit "),
    (r"푸시(?:를|는|을|은)?", " push "),
    (r"브랜치(?:에|를|로)?", " branch "),
    (r"접두사(?:를|로)?", " prefix "),
    (r"(?:포함|추가)(?:해야 한다|합니다|한다)?", " include "),
    (r"(?:수정|편집|변경)(?:을|를)?", " edit "),
    (r"삭제(?:를)?", " delete "),
    (r"생성(?:을)?", " create "),
    (r"사용(?!자)(?:을)?", " use "),
    (r"실행(?:을)?", " run "),
    (r"설치(?:를)?", " install "),
    (r"파일(?:을|은|를|의|에)?", " files "),
    (r"직접", " directly "),
    (r"(?:또는|이나|거나)", " or "),
    (r"영어로|영문으로", " in english "),
    (r"(?<=⟧)(?:을|를|은|는|이|가|에서|으로|로|의)(?=\s|$)", " "),
    (r"(?<=⟧)에(?=\s|$)", " to "),
    (r"(?<=⟧)(?:과|와)(?=\s)", " and "),
    # Japanese
    (r"(?:承認|許可|確認)(?:なしに?|なく)", " without approval "),
    (
        r"(?:を|は)?(?:しないこと|しないでください|してはいけない|してはならない|しない)(?=[。.\s]|$)",
        " never",
    ),
    (r"(?:わ|か|ら)?ない(?:こと|でください)(?=[。.\s]|$)", " never"),
    (r"(?:変更|編集|修正)", " edit "),
    (r"削除", " delete "),
    (r"(?:使用|使|利用)(?=\s| never|を|$)", " use "),
    (r"インストール", " install "),
    (r"コミットメッセージ", " commit messages "),
    (r"ファイル", " files "),
    (r"または", " or "),
    (r"必ず", " must "),
    (r"(?<=⟧)(?:を|は|に|の|で|が|へ)(?=[\s\u3040-\u9fff]|$)", " "),
)


@cache
def _foreign_pattern() -> re.Pattern[str]:
    return re.compile(
        r"[\u0400-\u04ff\uac00-\ud7a3\u3040-\u30ff]"
        r"|\b(?:niemals|nie|keine?[nrms]?|nicht|nunca|não|jamais|ne pas|sin|ohne|verändere"
        r"|statt|verboten|untersagt|vor (?:dem|jedem|einem)"
        rf"|no {_VERBS}|ni|oder)\b"
    )


def translate(text: str) -> str:
    """Return a text in lower case with the usual words of rules in English.

    A text in English or Chinese, and one that may limit itself in another language, is returned
    as it is.
    """
    if _foreign_pattern().search(text) is None:
        return text
    translated = text
    for pattern, replacement in _compiled():
        translated = pattern.sub(replacement, translated)
    is_limited = re.search(_LIMITS, translated) is not None
    return text if is_limited else " ".join(translated.split())


@cache
def _compiled() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), replacement) for pattern, replacement in _PHRASES]
