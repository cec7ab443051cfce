# ruff: noqa: RUF001 - Turkish has an i without a dot.
"""The words of invoices.jsonl: layouts of documents, what is asked of them, invented firms and goods."""

from __future__ import annotations

FIRMS = {
    "en": (
        *(
            "Northfield Tools Ltd",
            "Amber Lane Foods Ltd",
            "Quillbrook Paper Co",
            "Stonemill Bakery",
            "Harrow & Fenn LLP",
        ),
        *(
            "Bluegate Logistics Ltd",
            "Tallow Hill Farms",
            "Copperleaf Design Ltd",
            "Westmarsh Plumbing",
            "Oakrun Print Co",
        ),
        *(
            "Larkspur Clinics Ltd",
            "Pinewater Hotels Ltd",
            "Greyheron Software Ltd",
            "Saltbay Fisheries",
            "Elmdale School",
        ),
        *(
            "Redthorn Garages Ltd",
            "Mistvale Energy Co",
            "Kestrel Yard Studios",
            "Brightwell Glass Ltd",
            "Dunmere Textiles",
        ),
    ),
    "tr": (
        *("Kuzeytepe Makine Ltd. Şti.", "Mavidere Gıda A.Ş.", "Akçınar Kırtasiye", "Taşköprü Yapı Ltd. Şti."),
        *("Sarıçam Mobilya A.Ş.", "Gümüşova Tekstil A.Ş.", "Yeşilbağ Tarım Ltd. Şti.", "Demirkapı Lojistik A.Ş."),
        *("Çamlıbel Otelcilik A.Ş.", "Karagöl Yazılım Ltd. Şti.", "Beyazkule Matbaa", "Ilıcasu Enerji A.Ş."),
    ),
}
SHOPS = {
    "en": (
        *("Corner Pantry", "Harbour Books", "Village Hardware", "Green Basket", "Station Kiosk", "Hilltop Pharmacy"),
        *("Old Mill Cafe", "Garden & Home", "Paper Lantern Gifts", "Lakeside Sports"),
    ),
    "tr": ("Köşe Market", "Liman Kitabevi", "Çarşı Nalburiye", "Yeşil Sepet", "İstasyon Büfe", "Göl Kenarı Kafe"),
}
GOODS = {
    "en": (
        "office chairs",
        "copper pipes",
        "printed brochures",
        "garden tables",
        "steel shelves",
        "desk lamps",
        "flour",
    ),
    "tr": ("büro sandalyesi", "bakır boru", "basılı broşür", "bahçe masası", "çelik raf", "masa lambası"),
}
WARES = {
    "en": ("Apples", "Notebook", "Light bulb", "Coffee", "Batteries", "Soap", "Tea towel", "Honey", "Pencils", "Rice"),
    "tr": ("Elma", "Defter", "Ampul", "Kahve", "Pil", "Sabun", "Havlu", "Bal", "Pirinç"),
}
WORKS = {
    "en": ("lifts", "heating", "web site", "gardens", "printers", "vehicles", "alarm system"),
    "tr": ("asansörlerinin", "ısıtma sisteminin", "bahçelerinin", "yazıcılarının", "araçlarının"),
}
MONTHS = {
    "en": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "tr": (
        "Ocak",
        "Şubat",
        "Mart",
        "Nisan",
        "Mayıs",
        "Haziran",
        "Temmuz",
        "Ağustos",
        "Eylül",
        "Ekim",
        "Kasım",
        "Aralık",
    ),
}

# Layouts by language and kind. Each holds every field that may be asked of its kind; the first names them as asked.
LAYOUTS = {
    "en": {
        "invoice": (
            "INVOICE {no}\nSeller: {seller}\nBuyer: {buyer}\nInvoice date: {invoice_date}\nDue date: {due_date}\n"
            "Currency: {currency}\nNet amount: {net}\nTax: {tax}\nTotal: {total}",
            "Invoice {no} for {goods}\nInvoice date {invoice_date}\nSeller {seller}\nBuyer {buyer}\n"
            "Net amount   {net}\nTax {rate} %   {tax}\nTotal in {currency}   {total}\nDue date {due_date}",
            "Invoice {no}, dated {invoice_date}\nThe seller {seller} delivered {goods} to the buyer {buyer}. Total: "
            "{total} {currency} (net {net}, tax {tax}). Due on {due_date}.",
        ),
        "receipt": (
            "RECEIPT {no}\nShop: {shop}\nDate: {date}\nCurrency: {currency}\n{ware_1}: {price_1}\n{ware_2}: {price_2}\n"
            "Total: {total}\nPaid: {paid}\nChange: {change}",
            "Shop: {shop}\n{ware_1}   {price_1}\n{ware_2}   {price_2}\nTotal {currency}   {total}\nPaid   {paid}\n"
            "Change   {change}\nDate {date}\nThank you!",
            "{shop}\nReceipt {no} of {date}\n{ware_1} and {ware_2}\nTotal: {total} {currency}. You paid {paid}, your "
            "change is {change}.",
        ),
        "contract": (
            "CONTRACT {no}\nSupplier: {supplier}\nClient: {client}\nStart date: {start_date}\nEnd date: {end_date}\n"
            "Currency: {currency}\nMonthly fee: {fee}\nDeposit: {deposit}\nWork: care of the {works}",
            "CONTRACT {no}\n1. The supplier {supplier} takes care of the {works}.\n2. The client {client} pays.\n"
            "3. Start date {start_date}, end date {end_date}.\n4. Monthly fee {fee} {currency}.\n5. Deposit {deposit}.",
            "Contract {no}: {supplier} takes care of the {works} of its client {client} from {start_date} to "
            "{end_date}. For each month the client pays {fee} {currency}, and once a deposit of {deposit}.",
        ),
    },
    "tr": {
        "invoice": (
            "FATURA {no}\nSatıcı: {seller}\nAlıcı: {buyer}\nFatura tarihi: {invoice_date}\n"
            "Son ödeme tarihi: {due_date}\nPara birimi: {currency}\nNet tutar: {net}\nKDV: {tax}\nToplam: {total}",
            "{goods} için {no} numaralı fatura\nFatura tarihi {invoice_date}\nSatıcı {seller}\nAlıcı {buyer}\n"
            "Net tutar   {net}\nKDV %{rate}   {tax}\nToplam   {total} {currency}\nSon ödeme tarihi {due_date}",
        ),
        "receipt": (
            "FİŞ {no}\nMağaza: {shop}\nTarih: {date}\nPara birimi: {currency}\n{ware_1}: {price_1}\n"
            "{ware_2}: {price_2}\nToplam: {total}\nÖdenen: {paid}\nPara üstü: {change}",
            "Mağaza: {shop}\n{ware_1}   {price_1}\n{ware_2}   {price_2}\nToplam   {total} {currency}\nÖdenen   {paid}\n"
            "Para üstü   {change}\nTarih {date}\nTeşekkür ederiz!",
        ),
        "contract": (
            "SÖZLEŞME {no}\nYüklenici: {supplier}\nMüşteri: {client}\nBaşlangıç tarihi: {start_date}\n"
            "Bitiş tarihi: {end_date}\nPara birimi: {currency}\nAylık ücret: {fee}\nDepozito: {deposit}",
            "SÖZLEŞME {no}\n1. Yüklenici {supplier}, {works} bakımını yapar.\n2. Müşteri {client} öder.\n"
            "3. Başlangıç tarihi {start_date}, bitiş tarihi {end_date}.\n4. Aylık ücret {fee} {currency}.\n"
            "5. Depozito {deposit}.",
        ),
    },
}

# What may be asked of a kind: the field, and the words for it.
ASKED = {
    "en": {
        "invoice": {
            **{"seller": "seller", "invoice_date": "invoice date", "net": "net amount", "currency": "currency"},
            **{"buyer": "buyer", "due_date": "due date", "total": "total", "tax": "tax"},
        },
        "receipt": {
            **{"shop": "shop", "total": "total", "currency": "currency"},
            **{"date": "date", "paid": "money paid", "change": "change"},
        },
        "contract": {
            **{"supplier": "supplier", "start_date": "start date", "fee": "monthly fee", "currency": "currency"},
            **{"client": "client", "end_date": "end date", "deposit": "deposit"},
        },
    },
    "tr": {
        "invoice": {
            **{"seller": "satıcı", "invoice_date": "fatura tarihi", "net": "net tutar", "currency": "para birimi"},
            **{"buyer": "alıcı", "due_date": "son ödeme tarihi", "total": "toplam", "tax": "KDV"},
        },
        "receipt": {
            **{"shop": "mağaza", "total": "toplam", "currency": "para birimi"},
            **{"date": "tarih", "paid": "ödenen", "change": "para üstü"},
        },
        "contract": {
            **{"supplier": "yüklenici", "start_date": "başlangıç tarihi", "fee": "aylık ücret"},
            **{"currency": "para birimi", "client": "müşteri", "end_date": "bitiş tarihi", "deposit": "depozito"},
        },
    },
}
# The answer's form is shown on one small document: what is asked of it, by the sort of the field, and the answer.
EXAMPLE = {
    "en": "Firm: Holm Ltd\nDay: 2 May 2018\nCurrency: JPY\nSum: 75.00",
    "tr": "Firma: Holm A.Ş.\nGün: 2 Mayıs 2018\nPara birimi: JPY\nTutar: 75,00",
}
EXAMPLES = {
    "en": {
        "party": ("firm", "firm", "Holm Ltd"),
        "date": ("day", "day", "2 May 2018"),
        "amount": ("sum", "sum", "75.00"),
        "currency": ("currency", "currency", "JPY"),
    },
    "tr": {
        "party": ("firm", "firma", "Holm A.Ş."),
        "date": ("day", "gün", "2 Mayıs 2018"),
        "amount": ("sum", "tutar", "75,00"),
        "currency": ("currency", "para birimi", "JPY"),
    },
}
TASK = {
    "en": '{text}\n\nWhat is the {what}? Answer as JSON with the key "{key}".',
    "tr": '{text}\n\nİstenen: {what}. "{key}" anahtarıyla JSON olarak yaz.',
}
