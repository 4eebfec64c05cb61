package weburl

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) { // SECA-30
	tests := []struct {
		in       string
		url      string // "" is the same as in
		domain   string
		warnings []string // parts of them, in order
	}{
		{in: "https://example.com/", domain: "example.com"},
		{in: "https://example.com", url: "https://example.com/", domain: "example.com"},
		{in: "HTTPS://Example.COM/Path?Q=a#F", url: "https://example.com/Path?Q=a#F", domain: "example.com"},
		{in: "https://example.com:443/", url: "https://example.com/", domain: "example.com"},
		{in: "https://example.com:/", url: "https://example.com/", domain: "example.com"},
		{in: "https://login.example.co.uk/oauth?state=a%2Fb&redirect_uri=https://x.example/cb", domain: "example.co.uk"},
		{in: "https://foo.github.io/x", domain: "foo.github.io"},
		{in: "https://example.com/%0d%0a%00", domain: "example.com"},
		{in: "https://example.com?", url: "https://example.com/?", domain: "example.com"},
		{in: "https://r3---sn-a.example.com/", domain: "example.com"},
		// Shells do not see it, and nothing needs to be quoted for them (SECA-15).
		{in: "https://example.com/$(id)?a=`id`&b=\"x\"|y;'z'<>", url: "https://example.com/$(id)?a=%60id%60&b=%22x%22%7Cy;'z'%3C%3E", domain: "example.com"},
		{in: "https://example.com/straße?q=ü&p=100%&r=%zz#ä", url: "https://example.com/stra%C3%9Fe?q=%C3%BC&p=100%25&r=%25zz#%C3%A4", domain: "example.com"},
		{in: "https://evil.example.com/@accounts.bank.com/", domain: "example.com"},
		// Odd ones.
		{in: "https://accounts.google.com.evil.co.uk/signin", domain: "evil.co.uk", warnings: []string{"looks like google.com but belongs to evil.co.uk"}},
		{in: "https://example.com:8443/", domain: "example.com", warnings: []string{"port, 8443"}},
		{in: "https://xn--pple-43d.com/", domain: "xn--pple-43d.com", warnings: []string{"xn--pple-43d of its host is аpple: it mixes letters of Cyrillic and Latin"}},
		{in: "https://xn--80ak6aa92e.com/", domain: "xn--80ak6aa92e.com", warnings: []string{"is аррӏе, in letters of Cyrillic"}},
		{in: "https://münchen.example.com/", url: "https://xn--mnchen-3ya.example.com/", domain: "example.com",
			warnings: []string{"other letters than it has: it leads to xn--mnchen-3ya.example.com", "is münchen, in letters of Latin"}},
		{in: "https://日本語テスト.jp/", url: "https://xn--zckzah9945czlbtz6h.jp/", domain: "xn--zckzah9945czlbtz6h.jp",
			warnings: []string{"other letters", "letters of Han and Katakana; they"}},
		{in: "https://ⓔxample.com/", url: "https://example.com/", domain: "example.com", warnings: []string{"it leads to example.com"}},
		{in: "https://example。com/", url: "https://example.com/", domain: "example.com", warnings: []string{"it leads to example.com"}},
		{in: "https://192.0.2.7/", warnings: []string{"an IP address (192.0.2.7), not a name"}},
		{in: "https://１９２.0.2.7/", url: "https://192.0.2.7/", warnings: []string{"other letters", "an IP address"}},
		{in: "https://10.0.0.1/", warnings: []string{"in your own network"}},
		{in: "https://169.254.169.254/latest/meta-data", warnings: []string{"in your own network"}},
		{in: "https://[2001:DB8::1]:8443/", url: "https://[2001:db8::1]:8443/", warnings: []string{"an IP address (2001:db8::1)", "port, 8443"}},
		{in: "https://intranet/", warnings: []string{"no registrable domain"}},
		{in: "https://co.uk/", warnings: []string{"no registrable domain"}},
		{in: "https://wiki.corp-internal/", domain: "wiki.corp-internal", warnings: []string{".corp-internal, is not a public one"}},
		{in: "http://localhost:8080/cb", warnings: []string{"this machine (localhost)", "not encrypted", "port, 8080"}},
		{in: "http://127.0.0.1/", warnings: []string{"this machine (127.0.0.1)", "not encrypted"}},
		{in: "http://[::1]:80/", url: "http://[::1]/", warnings: []string{"this machine (::1)", "not encrypted"}},
		{in: "http://app.localhost/", warnings: []string{"this machine", "not encrypted"}},
		{in: "https://example.com/" + strings.Repeat("a", 2000), domain: "example.com", warnings: []string{"very long: 2020"}},
	}
	for _, tt := range tests {
		v, err := Check(tt.in)
		if err != nil {
			t.Errorf("Check(%q): %v", tt.in, err)
			continue
		}
		want := tt.url
		if want == "" {
			want = tt.in
		}
		if v.URL != want || v.Domain != tt.domain || len(v.Warnings) != len(tt.warnings) {
			t.Errorf("Check(%q): got %+v, want %q of %q, warnings %q", tt.in, *v, want, tt.domain, tt.warnings)
			continue
		}
		for i, w := range tt.warnings {
			if !strings.Contains(v.Warnings[i], w) {
				t.Errorf("Check(%q): got the warning %q, want %q in it", tt.in, v.Warnings[i], w)
			}
		}
	}
}

func TestCheckRefuses(t *testing.T) { // SEC-11, SECA-15, SECA-30, URL-16
	tests := []struct{ in, why string }{
		{"", "no scheme"},
		{"example.com", "no scheme"},
		{"//example.com/", "no scheme"},
		{"http://example.com/", "this machine only"},
		{"http://192.0.2.7/", "this machine only"},
		{"http://localhost.example.com/", "this machine only"},
		{"http://127.0.0.1.nip.io/", "this machine only"},
		{"javascript:alert(1)", "not https"},
		{"file:///etc/passwd", "not https"},
		{"data:text/html,x", "not https"},
		{"ftp://example.com/", "not https"},
		{"vscode://x/y", "not https"},
		{"-https://example.com/", "not https"},
		{"--new-window=https://example.com/", "not https"},
		{"https:example.com", "no // before"},
		{"https:/example.com", "no // before"},
		{"https://", "no host"},
		{"https:///evil.example/", "no host"},
		{"https://?x", "no host"},
		{"https://google.com@evil.example/", "user name"},
		{"https://google.com:443@evil.example/", "user name"},
		{"https://@evil.example/", "user name"},
		{"https://google.com\\@evil.example/", "backslash"},
		{"https:\\\\evil.example/", "backslash"},
		{"https://evil.example/\\..", "backslash"},
		{" https://example.com/", "U+0020"},
		{"https://example.com/ x", "U+0020"},
		{"https://example.com/\nx", "U+000A"},
		{"https://example.com/\tx", "U+0009"},
		{"https://example.com/\x1b[31m", "U+001B"},
		{"https://example.com/\x7f", "U+007F"},
		{"https://example.com/\u0085", "U+0085"},
		{"https://example.com/\u202egpj.exe", "U+202E"},
		{"https://exam\u200bple.com/", "U+200B"},
		{"https://example.com/\u00ad", "U+00AD"},
		{"https://example.com/\u3000x", "U+3000"},
		{"https://example.com/\u2028x", "U+2028"},
		{"https://example.com/\ue000", "U+E000"},
		{"https://example.com/\U000e0041", "U+E0041"},
		{"https://example.com/\u3164", "U+3164"},
		{"https://example.com/\xff", "UTF-8"},
		{"https://exa%6dple.com/", "encoded"},
		{"https://%65vil.example/", "encoded"},
		{"https://google.com%2f@evil.example/", "encoded"},
		{"https://example.com%00.evil.example/", "encoded"},
		{"https://[fe80::1%25eth0]/", "encoded"},
		{"https://2130706433/", "a number"},
		{"https://0x7f.1/", "a number"},
		{"https://0x7f000001/", "a number"},
		{"https://127.1/", "a number"},
		{"https://0177.0.0.1/", "a number"},
		{"https://127.0.0.01/", "a number"},
		{"https://１２７.1/", "a number"},
		{"https://1.2.3.4.5/", "a number"},
		{"https://999.1.1.1/", "a number"},
		{"https://example.com./", "ends in a dot"},
		{"https://./", "not a valid name"},
		{"https://a..b/", "not a valid name"},
		{"https://ex_ample.com/", "not a valid name"},
		{"https://exa$mple.com/", "not a valid name"},
		{"https://xn--/", "not a valid name"},
		{"https://xn--a/", "not a valid name"},
		{"https://xn--0.com/", "not a valid name"},
		{"https://" + strings.Repeat("a", 64) + ".com/", "not a valid name"},
		{"https://" + strings.Repeat("a.", 200) + "com/", "not a valid name"},
		{"https://[::1/", "malformed"},
		{"https://[1:2]/", "malformed"},
		{"https://[127.0.0.1]/", "malformed"},
		{"https://example.com:0/", "port"},
		{"https://example.com:99999/", "port"},
		{"https://example.com:8o/", "malformed"},
		{"https://example.com/%zz", "malformed"},
		{"https://example.com/" + strings.Repeat("a", 9000), "longer than 8192"},
		{"https://example.com/" + strings.Repeat("ü", 2000), "longer than 8192"},
	}
	for _, tt := range tests {
		v, err := Check(tt.in)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Check(%q): got %+v, %v, want an error with %q", tt.in, v, err, tt.why)
		}
		if err != nil && strings.ContainsFunc(err.Error(), odd2) {
			t.Errorf("Check(%q): the error %q repeats what it refuses", tt.in, err)
		}
	}
}

// odd2 is what no message may have.
func odd2(r rune) bool { return r != ' ' && odd(r) }

func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		"https://example.com/a?b#c", "http://[::1]:8080/", "https://münchen.de/ü?ü#ü", "https://xn--pple-43d.com", "https://a@b/",
		"https://e.com/%41%?%%25#%", "https://127.0.0.1:443", "https://ⓔ.com?", "https://a.b//c/../d;e", "https://faß.de/", "https://a.b/[x]?[y]#[z]##",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := Check(raw)
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Errorf("Check(%q): got error %v", raw, err)
			}
			return
		}
		for i := range len(v.URL) {
			if c := v.URL[i]; c <= ' ' || c >= 0x7f || c == '\\' {
				t.Errorf("Check(%q): got %q", raw, v.URL)
			}
		}
		again, err := Check(v.URL)
		if err != nil || again.URL != v.URL || again.Host != v.Host || again.Domain != v.Domain {
			t.Errorf("Check(%q): got %+v, and from that %+v, %v", raw, v, again, err)
		}
		if v.Domain != "" && v.Host != v.Domain && !strings.HasSuffix(v.Host, "."+v.Domain) {
			t.Errorf("Check(%q): the domain %q is not that of %q", raw, v.Domain, v.Host)
		}
		if slices.Contains(v.Warnings, "") {
			t.Errorf("Check(%q): an empty warning", raw)
		}
	})
}
