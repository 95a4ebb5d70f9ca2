"""The invented vocabulary that the synthetic texts are made of: a harbour service that watches tides and ferries."""

from __future__ import annotations


def _words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


NOUNS = _words(
    "gauge berth ferry harbour tide buoy crossing pier timetable reading station alert forecast window quay "
    "manifest booking deck ramp lane voucher signal beacon channel depth draught current swell threshold sample "
    "series baseline outage ticket passenger vehicle operator shift roster crew skipper vessel hull engine fuel "
    "bunker anchor mooring winch crane pallet container parcel customs permit invoice tariff surcharge refund "
    "queue worker job batch cursor page token session cache snapshot ledger entry account balance payment receipt "
    "webhook retry backoff deadline lease lock shard replica checkpoint offset stream topic event handler router "
    "middleware request response header cookie payload schema column index migration table record field parser "
    "lexer grammar template renderer layout widget panel chart legend axis marker tooltip cluster region segment "
    "polygon waypoint bearing latitude longitude altitude pressure humidity rainfall visibility gust sensor probe "
    "calibration drift noise filter median average variance quantile histogram bucket counter meter timer span "
    "trace logger formatter sink rotation archive bundle digest checksum signature certificate secret policy rule "
    "matcher selector resolver registry plugin adapter bridge gateway proxy client server socket peer pool slot"
)

VERBS = _words(
    "load read parse fetch store merge split join sort filter group collect reduce render format publish notify "
    "schedule cancel confirm reject validate normalise resolve expand shrink encode decode compress rotate flush "
    "drain claim release acquire renew expire refresh rebuild replay rewind advance skip retry resume pause open "
    "close attach detach register select compare measure estimate predict smooth sample aggregate summarise count "
    "record trace report inspect repair clean prune archive restore import export convert translate match route"
)

ADJECTIVES = _words(
    "late early stale fresh empty partial complete pending active idle closed open broken missing duplicate remote "
    "local nightly weekly seasonal coastal northern southern outer inner shallow deep calm rough raw clean sorted "
    "unsorted trusted signed expired recent old small large narrow wide slow fast cold warm primary secondary shared "
    "private public internal external manual automatic optional required numeric textual binary sparse dense"
)

PLACES = _words(
    "Larvendal Osthavn Kettleby Brinmouth Tarnsund Veldhaven Skarvik Pellmore Ansterholm Dunrock Hollisund Marrowby "
    "Fennwick Gullhaven Ostrabeck Ridgemouth Saltersund Thornquay Ulverness Westerhamn Yarrowby Zandersund Corvik "
    "Eldermouth Foxholm Grimsund Hartquay Ivelness Jorrvik Kelderby"
)

NAMES = _words(
    "Ada Bertil Carla Dorte Emil Freya Goran Hedda Ivo Jonna Kaspar Linnea Mira Nils Oda Petter Runa Stig Tove"
)

PACKAGES = _words(
    "tidewatch harbourline berthplan gaugekit ferrydesk quaylog saltmap swellnet driftcheck mooring-core lanes-ui "
    "crossings-api manifest-tools pierview rosterly"
)

GREETINGS = (
    "潮位の読み取りに失敗しました",
    "渡船時刻表を更新しました",
    "港口水位低于阈值",
    "请检查传感器校准",
    "방파제 센서 응답 없음",
    "Прилив выше нормы",
    "Ebbe über Nacht — Gezeitenkalender prüfen",
    "Niveau d'eau : alerte levée",
    "Marea baja a las 04:10",
    "Högvatten väntas klockan nio",
    "🌊 swell rising",
    "⚓ berth 4 is free",
    "🚢 arrival delayed by 12 min",
    "✅ gauge calibrated",
    "⚠️ battery low",
    "👩🏽‍🔧 crew on site",
    "Überlauf an Pegel 7",
    "Ćwierć metra poniżej normy",
    "नाव समय पर है",
    "الميناء مغلق مؤقتا",
)

_PAST = {
    "read": "read",
    "split": "split",
    "skip": "skipped",
    "trim": "trimmed",
    "cancel": "cancelled",
    "notify": "notified",
    "compress": "compressed",
    "reset": "reset",
    "rewind": "rewound",
    "claim": "claimed",
}


def past(verb: str) -> str:
    """Return the past form of one of the verbs."""
    if verb in _PAST:
        return _PAST[verb]
    return verb + ("d" if verb.endswith("e") else "ed")
