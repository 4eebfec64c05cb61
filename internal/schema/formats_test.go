package schema

import (
	"encoding/json"
	"regexp"
	"testing"
)

// A string must have a format for us if and only if it has for the library, which takes a
// sign for a digit in addresses and times.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{
		"", "a", "/", "/a~0b~1/ä", "/a~2", "~", "a/b", "0", "0#", "1/a", "01/a", "10", "-1#", "#",
		"(a|b)+", "(", "(?=a)", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D1638G", "2eb8aa08aa9811eab4aa73b441d16380",
		"1.2.3", "1.2", "01.2.3", "1.2.3-a.1+b.01", "1.2.3-01", "1.2.3-", "1.2.3+", "1.2.3-a+b+c", "1.2.3--",
		"2024-02-29", "2023-02-29", "2024-2-9", "12:00:00Z", "12:00:00", "23:59:60Z", "22:59:60-01:00", "12:59:60Z", "00:29:60+00:30", "24:00:00Z", "12:00:00.5z", "12:00:00.Z",
		"12:00:00+01:00", "12:00:00+1:00", "12:00:00+24:00", "12:00:61Z", "2024-02-29T12:00:00Z", "2024-02-29t12:00:00.123+05:30", "2024-02-29 12:00:00Z", "2024-13-01T12:00:00Z",
		"P1D", "P", "PT", "P1Y2M3DT4H5M6S", "P1M1Y", "P2W", "PW", "P1WT1H", "PT1D", "P1D2H", "PT1H/2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z/P1D", "P1D/P1D", "/",
		"127.0.0.1", "127.0.0.256", "127.0.0.01", "127.1", "::1", "::ffff:1.2.3.4", "fe80::1%eth0", "1::2::3", "[::1]",
		"example.org", "example.org.", "-a.org", "a-.org", "a..b", "a_b", "xn--a", "a@b.org", "a@b@c", "@b", "a.b+c@d", ".a@b", "a..b@c", "\"a b\"@c", "\"a\"b\"@c", "a@[127.0.0.1]", "a@[IPv6:::1]", "a@[x]", "a@[",
		"https://example.org/a?b#c", "//example.org", "https://[::1]/", "https://[x::1]/", "https://::1/", "a b", "\\a", "https://example.org/%zz", "urn:a:b", "/{a}/b", "/{a", "/a}", "/{a{b}}", "http://a/{b/c}",
	} {
		f.Add(s)
	}
	signed := regexp.MustCompile(`(^|[^0-9])[+-][0-9]`)
	theirs := map[string]func(string) error{}
	for name := range formats {
		theirs[name] = oracle(f, `{"format":"`+name+`"}`)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal(s)
		if err != nil || json.Unmarshal(text, &s) != nil {
			t.Skip()
		}
		for name, format := range formats {
			got, err := format.fits(s), theirs[name](string(text))
			if got != (err == nil) && (got || !signed.MatchString(s)) {
				t.Errorf("%s of %q: got %t, want %v", name, s, got, err)
			}
		}
	})
}
