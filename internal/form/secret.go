package form

import (
	"slices"
	"strings"
	"unicode"

	"github.com/troupe-dev/troupe/internal/sanitize"
)

// secrets are words, each list one after the other, that secrets go by. Forms must
// not ask for these (ELIC-11).
var secrets = [][]string{
	{"password"}, {"passwords"}, {"passwort"}, {"kennwort"}, {"passwd"}, {"pwd"}, {"passphrase"}, {"passcode"}, {"pass", "word"}, {"pass", "phrase"},
	{"secret"}, {"secrets"}, {"token"}, {"tokens"}, {"bearer"}, {"jwt"}, {"credential"}, {"credentials"}, {"pin"}, {"pincode"},
	{"apikey"}, {"apikeys"}, {"api", "key"}, {"api", "keys"}, {"access", "key"}, {"private", "key"}, {"secret", "key"}, {"encryption", "key"}, {"ssh", "key"}, {"license", "key"},
	{"otp"}, {"totp"}, {"2fa"}, {"mfa"}, {"one", "time", "code"}, {"verification", "code"}, {"security", "code"}, {"auth", "code"}, {"recovery", "code"},
	{"seed", "phrase"}, {"recovery", "phrase"}, {"mnemonic"}, {"wallet", "key"},
	{"card"}, {"cardnumber"}, {"creditcard"}, {"cvv"}, {"cvc"}, {"cvv2"}, {"iban"}, {"account", "number"}, {"routing", "number"}, {"sort", "code"},
	{"ssn"}, {"social", "security"}, {"session", "id"},
	{"mot", "de", "passe"}, {"contraseña"}, {"contrasena"}, {"senha"}, {"clave"}, {"wachtwoord"}, {"пароль"},
}

// glued are looked for within words too, because names are often written without
// gaps, and where words have none.
var glued = []string{"password", "passphrase", "apikey", "secretkey", "accesskey", "privatekey", "accesstoken", "authtoken", "creditcard", "cardnumber",
	"密码", "密碼", "パスワード", "비밀번호"}

// LooksSecret reports whether a text that belongs to a field seems to ask for a
// password, a key, payment data or the like. It is a guess, good for a warning
// (SECA-31): hidden characters and letters that look like others do not hide a word.
func LooksSecret(s string) bool {
	s, _ = sanitize.Text(s, sanitize.Limits{Bytes: 16 << 10})
	for _, form := range []string{s, lookalikes.Replace(s)} {
		if hasSecret(form) {
			return true
		}
	}
	return false
}

func hasSecret(s string) bool {
	words := split(s)
	for i := range words {
		for _, secret := range secrets {
			if len(secret) <= len(words)-i && slices.Equal(secret, words[i:i+len(secret)]) {
				return true
			}
		}
	}
	joined := strings.Join(words, " ")
	return slices.ContainsFunc(glued, func(g string) bool { return strings.Contains(joined, g) })
}

// split parts a text into words in lower case, and names such as apiKey or
// API_KEY into theirs.
func split(s string) []string {
	var b strings.Builder
	before := rune(' ')
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(b.String())
}

// lookalikes maps the Cyrillic and Greek letters that look like Latin ones, and
// the digits that stand in for letters.
var lookalikes = strings.NewReplacer(
	"а", "a", "е", "e", "о", "o", "р", "p", "с", "c", "у", "y", "х", "x", "і", "i", "ј", "j", "ѕ", "s", "ԁ", "d", "ԝ", "w", "к", "k", "т", "t", "в", "b", "н", "h", "м", "m",
	"А", "A", "Е", "E", "О", "O", "Р", "P", "С", "C", "У", "Y", "Х", "X", "І", "I", "Ј", "J", "Ѕ", "S", "К", "K", "Т", "T", "В", "B", "Н", "H", "М", "M",
	"α", "a", "ο", "o", "ρ", "p", "ι", "i", "κ", "k", "ν", "v", "τ", "t", "Α", "A", "Ε", "E", "Ο", "O", "Ρ", "P", "Ι", "I", "Κ", "K", "Τ", "T", "Ν", "N",
	"0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "@", "a", "$", "s",
)
