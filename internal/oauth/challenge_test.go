package oauth_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// Challenges are parsed as RFC 9110 has them: several in a header, several headers, quoted
// texts, token68; malformed ones do not hide those before them (AUTH-22).
func TestParseChallenges(t *testing.T) {
	p := func(pairs ...string) map[string]string {
		m := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	type cs = oauth.Challenges
	tests := []struct {
		name   string
		values []string
		want   cs
	}{
		{"none", nil, nil},
		{"empty", []string{"", " , ,"}, nil},
		{"a scheme alone", []string{"Bearer"}, cs{{Scheme: "bearer"}}},
		{"parameters", []string{`Bearer realm="x", scope="a b"`}, cs{{Scheme: "bearer", Params: p("realm", "x", "scope", "a b")}}},
		{"names in capitals", []string{`BEARER Error=invalid_token`}, cs{{Scheme: "bearer", Params: p("error", "invalid_token")}}},
		{"spaces around =", []string{"Bearer a = \"1\" ,\tb\t=2"}, cs{{Scheme: "bearer", Params: p("a", "1", "b", "2")}}},
		{"quoted pairs", []string{`Bearer a="say \"hi\", \\ and , = go"`}, cs{{Scheme: "bearer", Params: p("a", `say "hi", \ and , = go`)}}},
		{"an empty text", []string{`Bearer a=""`}, cs{{Scheme: "bearer", Params: p("a", "")}}},
		{"several in one", []string{`Basic realm="a", Bearer scope="x", resource_metadata="https://h/p", Negotiate`},
			cs{{Scheme: "basic", Params: p("realm", "a")}, {Scheme: "bearer", Params: p("scope", "x", "resource_metadata", "https://h/p")}, {Scheme: "negotiate"}}},
		{"token68", []string{`Negotiate abc+/==, Bearer a=b`}, cs{{Scheme: "negotiate", Token68: "abc+/=="}, {Scheme: "bearer", Params: p("a", "b")}}},
		{"several headers", []string{`DPoP algs="ES256"`, `Bearer error="invalid_token"`},
			cs{{Scheme: "dpop", Params: p("algs", "ES256")}, {Scheme: "bearer", Params: p("error", "invalid_token")}}},
		{"empty elements", []string{`,Bearer a=1,,b=2,, Basic x=y,`}, cs{{Scheme: "bearer", Params: p("a", "1", "b", "2")}, {Scheme: "basic", Params: p("x", "y")}}},
		{"a comma is missing", []string{`Bearer error="invalid_token" scope="a"`}, cs{{Scheme: "bearer", Params: p("error", "invalid_token", "scope", "a")}}},
		{"an address without quotes", []string{`Bearer resource_metadata=https://h/p?x=1, scope=a`},
			cs{{Scheme: "bearer", Params: p("resource_metadata", "https://h/p?x=1", "scope", "a")}}},
		{"letters beyond ASCII", []string{"Bearer a=\"\xc3\xa9\""}, cs{{Scheme: "bearer", Params: p("a", "é")}}},
		{"twice the same parameter", []string{`Bearer scope="a", scope="b", Basic realm="x"`}, cs{{Scheme: "basic", Params: p("realm", "x")}}},
		{"a text without end", []string{`Basic realm="x", Bearer scope="a`}, cs{{Scheme: "basic", Params: p("realm", "x")}}},
		{"a pair without end", []string{`Bearer scope="a\`}, nil},
		{"control characters", []string{"Bearer scope=\"a\x00b\"", "Bearer scope=\"a\r\nX: y\"", "Bearer scope=\"a\\\x01\""}, nil},
		{"no scheme", []string{`="x"`, `"Bearer"`, `Bearer/2 a=b`}, nil},
		{"junk behind", []string{`Bearer a=b, @@@`}, cs{{Scheme: "bearer", Params: p("a", "b")}}},
		{"a malformed header before a good one", []string{`Bearer a="`, `Bearer b=c`}, cs{{Scheme: "bearer", Params: p("b", "c")}}},
	}
	for _, tt := range tests {
		if got := oauth.ParseChallenges(tt.values); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: ParseChallenges(%q): got %q, want %q", tt.name, tt.values, got, tt.want)
		}
	}
}

// Ten thousand challenges, and long ones, are not kept (SECA-9).
func TestManyChallenges(t *testing.T) {
	if got := oauth.ParseChallenges([]string{strings.Repeat("A,", 4000)}); len(got) != 16 {
		t.Errorf("4,000 challenges in one header: got %d, want 16", len(got))
	}
	if got := oauth.ParseChallenges(slices.Repeat([]string{"Bearer a=b"}, 10_000)); len(got) != 16 {
		t.Errorf("10,000 headers: got %d, want 16", len(got))
	}
	if got := oauth.ParseChallenges([]string{"Bearer a=b", strings.Repeat("A", 9<<10), "Basic"}); len(got) != 1 {
		t.Errorf("more than 8 KiB: got %d, want 1", len(got))
	}
}

// What a client reads off challenges, which may be for bearer and DPoP tokens (AUTH-21,
// AUTH-41, AUTH-60).
func TestChallenges(t *testing.T) {
	cs := oauth.ParseChallenges([]string{
		`Basic realm="x", scope="basic", resource_metadata="https://basic/"`,
		`Bearer scope="a b", DPoP error="insufficient_scope", scope="b c  b", resource_metadata="https://h/p"`,
	})
	if got := cs.ResourceMetadata(); got != "https://h/p" {
		t.Errorf("ResourceMetadata: got %q", got)
	}
	if got := cs.Scopes(); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("Scopes: got %q", got)
	}
	if !cs.HasError("insufficient_scope") || cs.HasError("invalid_token") {
		t.Error("HasError is wrong")
	}
	for header, want := range map[string]bool{
		`Bearer scope="a", DPoP error="insufficient_scope"`: true, `Bearer scope="a"`: true, // the Go SDK has no code
		`Bearer error="invalid_token", scope="a"`: false, `Bearer realm="x"`: false, `Basic scope="a"`: false,
	} {
		if got := oauth.ParseChallenges([]string{header}).WantsScopes(); got != want {
			t.Errorf("WantsScopes of %s: got %t", header, got)
		}
	}
	if !cs.Wants("DPoP") || !cs.Wants("bearer") || cs.Wants("negotiate") {
		t.Error("Wants is wrong")
	}
	if got := oauth.ParseChallenges([]string{`Bearer scope="a", Bearer scope="b"`}).Scopes(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("Scopes of the first: got %q", got)
	}
	if got := oauth.ParseChallenges(nil).Scopes(); got != nil {
		t.Errorf("no scopes: got %q, want nil: AUTH-41 goes on with the metadata", got)
	}
}

// Scopes are those of RFC 6749, each once, and not without bound (SECA-26).
func TestParseScopes(t *testing.T) {
	if got, want := oauth.ParseScopes("  a b:c a \"x\" d\\e ü \x01 f "), []string{"a", "b:c", "f"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprint(&many, " s", i)
	}
	if got := oauth.ParseScopes(many.String()); len(got) != 200 {
		t.Errorf("10,000 scopes: got %d, want 200", len(got))
	}
	if got := oauth.ParseScopes(strings.Repeat("x", 300)); got != nil {
		t.Errorf("a long scope: got %d", len(got))
	}
}

// FuzzChallenges: no input has more challenges than the bound, or a parameter with a control
// character.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer resource_metadata="https://h/.well-known/oauth-protected-resource", scope="a b", error="invalid_token"`)
	f.Add(`Negotiate abc==, Basic realm="\"", Bearer`)
	f.Add(`Bearer a=b a=c, , DPoP algs="ES256 RS256"`)
	f.Fuzz(func(t *testing.T, value string) {
		all := oauth.ParseChallenges([]string{value, value})
		if len(all) > 16 {
			t.Errorf("%d challenges", len(all))
		}
		for _, c := range all {
			if c.Scheme == "" || c.Scheme != strings.ToLower(c.Scheme) || c.Token68 != "" && c.Params != nil {
				t.Errorf("%+v", c)
			}
			for name, v := range c.Params {
				if name == "" || strings.ContainsAny(v, "\x00\r\n\x7f") {
					t.Errorf("%q = %q", name, v)
				}
			}
		}
		all.Scopes()
	})
}
