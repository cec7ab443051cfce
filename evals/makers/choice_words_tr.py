# ruff: noqa: RUF001 - Turkish has an i without a dot.
"""The items of choices.jsonl in Turkish: a beginning, its right end, and three wrong ones, by kind."""

from __future__ import annotations

TURKISH = {
    "fact": """
Türkiye'nin başkenti|Ankara|İstanbul|İzmir|Bursa
Fransa'nın başkenti|Paris|Londra|Roma|Berlin
Olgun muzun rengi|sarı|mor|mavi|siyah
Temiz karın rengi|beyaz|kara|yeşil|sarı
Bir haftadaki gün sayısı|yedi|beş|dokuz|on
Bir yıldaki ay sayısı|on iki|on bir|on dört|yirmi
Üçgenin kenar sayısı|üç|dört|beş|altı
Arıların yaptığı besin|bal|süt|un|yağ
Peynirin yapıldığı besin|süt|un|bal|üzüm
Köpeğin yavrusuna verilen ad|enik|buzağı|tay|kuzu
Uçağı kullanan kişi|pilot|kaptan|doktor|aşçı
Kanı pompalayan organ|kalp|mide|göz|kulak
""",
    "opposite": """
"Sıcak" sözcüğünün karşıtı:|soğuk|ılık|kuru|güneşli
"Büyük" sözcüğünün karşıtı:|küçük|geniş|uzun|ağır
"Uzun" sözcüğünün karşıtı:|kısa|geniş|ince|yüksek
"Dolu" sözcüğünün karşıtı:|boş|tam|açık|derin
"Zengin" sözcüğünün karşıtı:|fakir|cömert|mutlu|ünlü
"Erken" sözcüğünün karşıtı:|geç|önce|hemen|sabah
"Gece" sözcüğünün karşıtı:|gündüz|akşam|yıldız|karanlık
"Güzel" sözcüğünün karşıtı:|çirkin|hoş|iyi|parlak
"Açık" sözcüğünün karşıtı:|kapalı|geniş|boş|aydınlık
"Gelmek" sözcüğünün karşıtı:|gitmek|varmak|girmek|durmak
"Ağlamak" sözcüğünün karşıtı:|gülmek|üzülmek|bağırmak|susmak
"Dost" sözcüğünün karşıtı:|düşman|arkadaş|komşu|kardeş
""",
    "category": """
Serçe bir tür|kuştur|balıktır|böcektir|ağaçtır
Hamsi bir tür|balıktır|kuştur|meyvedir|böcektir
Meşe bir tür|ağaçtır|çiçektir|kuştur|taştır
Lale bir tür|çiçektir|ağaçtır|meyvedir|sebzedir
Elma bir tür|meyvedir|sebzedir|çiçektir|içecektir
Havuç bir tür|sebzedir|meyvedir|çiçektir|tatlıdır
Keman bir tür|çalgıdır|araçtır|oyundur|giysidir
Ceket bir tür|giysidir|çalgıdır|taşıttır|yemektir
Kamyon bir tür|taşıttır|giysidir|hayvandır|yapıdır
Karınca bir tür|böcektir|kuştur|balıktır|bitkidir
Çay bir tür|içecektir|yiyecektir|giysidir|taşıttır
Satranç bir tür|oyundur|danstır|şarkıdır|yemektir
""",
    "sequence": """
pazartesi, salı, çarşamba,|perşembe|pazar|cumartesi|pazartesi
cuma, cumartesi, pazar,|pazartesi|salı|cuma|çarşamba
ocak, şubat, mart,|nisan|mayıs|haziran|ağustos
eylül, ekim, kasım,|aralık|ocak|temmuz|ağustos
bir, iki, üç,|dört|beş|altı|sekiz
iki, dört, altı,|sekiz|yedi|dokuz|beş
on, yirmi, otuz,|kırk|elli|altmış|yüz
birinci, ikinci, üçüncü,|dördüncü|beşinci|sonuncu|altıncı
ilkbahar, yaz, sonbahar,|kış|bahar|yaz|mart
dün, bugün,|yarın|akşam|geçen|önce
saniye, dakika, saat,|gün|yıl|hafta|ay
bebek, çocuk, genç,|yetişkin|oğlan|torun|kardeş
""",
    "cause": """
Dondurma güneşte kaldı, bu yüzden|eridi|dondu|büyüdü|uçtu
Bardak taşa düştü, bu yüzden|kırıldı|eridi|yandı|uçtu
Su dondurucuya kondu, bu yüzden|dondu|kaynadı|yandı|kurudu
Çiçek haftalarca susuz kaldı, bu yüzden|soldu|açtı|büyüdü|yüzdü
Yağmurda şemsiyesizdi, bu yüzden|ıslandı|kurudu|uyudu|güldü
Bütün gün yemek yemedi, bu yüzden|acıktı|doydu|üşüdü|sevindi
Çok çalıştı, bu yüzden sınavı|geçti|kaybetti|unuttu|sattı
Fıkra çok komikti, bu yüzden herkes|güldü|ağladı|uyudu|kaçtı
Oda karanlıktı, bu yüzden açtığı şey|lamba|radyo|kitap|dolap
Dişi ağrıyordu, bu yüzden gittiği kişi|dişçi|fırıncı|terzi|kasap
Çaya şeker koydu, bu yüzden çay|tatlandı|ekşidi|soğudu|bitti
Taş göle atıldı, bu yüzden|battı|yüzdü|uçtu|eridi
""",
}
