package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/troupe-dev/troupe/internal/config"
)

// ROB-3, SECA-27: a hostile file is an error, soon, of bounded length, that nothing obeys
// and that holds nothing that might be a key.
func TestHostileFiles(t *testing.T) {
	const secret = "sk-live-0123456789abcdefghij"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%[1]c [*%[2]c,*%[2]c,*%[2]c,*%[2]c,*%[2]c,*%[2]c,*%[2]c,*%[2]c,*%[2]c]\n", c, c-1)
	}
	for name, text := range map[string]string{
		"a bomb of aliases":      "version: 1\n" + bomb,
		"aliases as values":      "version: &v 1\nlimits: {tokens: *v}\n",
		"a merge":                "version: 1\nlimits: &l {tokens: 1}\nmodels: {<<: *l}\n",
		"an anchor on a key":     "version: 1\n&k limits: {tokens: 1}\n",
		"itself":                 "version: 1\nmodels: &m {providers: *m}\n",
		"100 MB":                 "version: 1\n#" + strings.Repeat("x", 100<<20),
		"deep lists":             "version: 1\nmodels: " + strings.Repeat("[", 500_000),
		"deep mappings":          "version: 1\nmodels: " + strings.Repeat("{a: ", 200_000),
		"deep lines":             "version: 1\n" + deepLines(800),
		"many keys":              "version: 1\n" + manyKeys(50_000),
		"a key twice":            "version: 1\nlimits: {tokens: 1, tokens: 2}\n",
		"a key twice, in escape": "version: 1\nlimits: {tokens: 1, \"tok\\u0065ns\": 2}\n",
		"a key in another case":  "version: 1\nLimits: {tokens: 1}\n",
		"a full-width key":       "version: 1\nｌimits: {tokens: 1}\n",
		"an invisible sign":      "version: 1\n\"lim\\u200bits\": {tokens: 1}\n",
		"a terminal's key":       "version: 1\n\"\\e[2J\\e[31mlimits\": {tokens: 1}\n",
		"a terminal's value":     "version: 1\nlimits: {on_limit: \"\\e[2J\"}\n",
		"NUL":                    "version: 1\nlimits\x00: {}\n",
		"not UTF-8":              "version: 1\n\xff\xfe: {}\n",
		"UTF-16":                 "\xff\xfev\x00e\x00r\x00",
		"a tag":                  "version: !!python/object/apply:os.system [id]\n",
		"a number that is not":   "version: 1\nlimits: {tokens: .nan}\n",
		"a negative number":      "version: 1\nlimits: {tokens: -1}\n",
		"a huge number":          "version: 1\nlimits: {tokens: 9223372036854775808}\n",
		"two documents":          "version: 1\n---\nversion: 1\n",
		"a key":                  "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: " + secret + "}}}\n",
		"a key as a reference":   "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: *" + secret + "}}}\n",
		"a key as an anchor":     "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: &" + secret + " x}}}\n",
		"a key as a tag":         "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: !" + secret + " x}}}\n",
		"a key as a handle":      "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: !" + secret + "!y x}}}\n",
		"a key in a URL":         "version: 1\nmodels: {providers: {x: {base_url: 'http://u:" + secret + "@x'}}}\n",
		"a key as a variable":    "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key_env: " + secret + "}}}\n",
		"a key that is open":     "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: '" + secret + "\n",
		"a key behind a colon":   "version: 1\nmodels:\n  providers:\n    x:\n      api_key: a: " + secret + "\n",
		"a key as two":           "version: 1\nmodels: {providers: {x: {base_url: 'http://x', api_key: '${A}', api_key_env: '" + secret + "'}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			c, err := config.Parse("troupe.yaml", []byte(text), false)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("Parse took %v", took)
			}
			if err == nil {
				t.Fatalf("Parse: got %+v, want an error", c)
			}
			says := err.Error()
			if len(says) > 16<<10 || strings.Contains(says, secret) || strings.Contains(says, secret[:20]) {
				t.Errorf("Parse: the error has %d bytes or the key: %.300q", len(says), says)
			}
			if strings.ContainsFunc(says, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("Parse: the error has what a terminal obeys: %.300q", says)
			}
		})
	}
}

func deepLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

// SECA-27: the key of a vendor in the environment goes to that vendor's API only, whatever
// type a file gives its name.
func TestKeysOfOtherTypes(t *testing.T) {
	const secret = "sk-live-0123456789abcdefghij"
	for _, name := range []string{"openai", "anthropic", "gemini"} {
		c, err := config.Parse("troupe.yaml", []byte("version: 1\nmodels: {providers: {"+name+": {type: ollama}}}\n"), false)
		if err != nil {
			continue // it is refused: as well
		}
		s, err := c.Server(name, func(env string) string {
			if strings.HasSuffix(env, "_API_KEY") {
				return secret
			}
			return ""
		})
		if err == nil && !s.APIKey.IsZero() {
			t.Errorf("%s as ollama at %q: has the vendor's key", name, s.BaseURL)
		}
	}
}
