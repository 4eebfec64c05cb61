package uritemplate

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	reference "github.com/yosida95/uritemplate/v3"
)

// values are those of RFC 6570, 3.2.1. Its pairs are in another order there.
var values = map[string]any{
	"count": []string{"one", "two", "three"}, "dom": []string{"example", "com"}, "dub": "me/too", "hello": "Hello World!", "half": "50%",
	"var": "value", "who": "fred", "base": "http://example.com/home/", "path": "/foo/bar", "list": []string{"red", "green", "blue"},
	"keys": map[string]string{"comma": ",", "dot": ".", "semi": ";"}, "v": "6", "x": "1024", "y": "768", "empty": "",
	"empty_keys": map[string]string{}, "undef": nil,
}

// RFC 6570: its examples, of every operator and modifier; RES-02.
func TestExpand(t *testing.T) {
	tests := []struct{ template, want string }{
		{"", ""}, {"plain", "plain"}, {"ü/%41", "%C3%BC/%41"},
		{"{var}", "value"}, {"{hello}", "Hello%20World%21"}, {"{half}", "50%25"}, {"O{empty}X", "OX"}, {"O{undef}X", "OX"},
		{"{x,y}", "1024,768"}, {"{x,hello,y}", "1024,Hello%20World%21,768"}, {"?{x,empty}", "?1024,"}, {"?{x,undef}", "?1024"},
		{"{var:3}", "val"}, {"{var:30}", "value"}, {"{list}", "red,green,blue"}, {"{list*}", "red,green,blue"},
		{"{keys}", "comma,%2C,dot,.,semi,%3B"}, {"{keys*}", "comma=%2C,dot=.,semi=%3B"},
		{"{+var}", "value"}, {"{+hello}", "Hello%20World!"}, {"{+half}", "50%25"}, {"{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"},
		{"{+base}index", "http://example.com/home/index"}, {"{+path}/here", "/foo/bar/here"}, {"{+x,hello,y}", "1024,Hello%20World!,768"},
		{"{+path:6}/here", "/foo/b/here"}, {"{+list*}", "red,green,blue"}, {"{+keys*}", "comma=,,dot=.,semi=;"},
		{"{#var}", "#value"}, {"foo{#empty}", "foo#"}, {"foo{#undef}", "foo"}, {"{#path,x}/here", "#/foo/bar,1024/here"}, {"{#keys}", "#comma,,,dot,.,semi,;"},
		{"{.who,who}", ".fred.fred"}, {"{.half,who}", ".50%25.fred"}, {"www{.dom*}", "www.example.com"}, {"X{.list}", "X.red,green,blue"},
		{"X{.keys*}", "X.comma=%2C.dot=..semi=%3B"}, {"X{.empty_keys}", "X"}, {"X{.empty_keys*}", "X"},
		{"{/who,who}", "/fred/fred"}, {"{/who,dub}", "/fred/me%2Ftoo"}, {"{/var,empty}", "/value/"}, {"{/var:1,var}", "/v/value"},
		{"{/list*}", "/red/green/blue"}, {"{/list*,path:4}", "/red/green/blue/%2Ffoo"}, {"{/keys*}", "/comma=%2C/dot=./semi=%3B"},
		{"{;who}", ";who=fred"}, {"{;empty}", ";empty"}, {"{;v,empty,who}", ";v=6;empty;who=fred"}, {"{;list}", ";list=red,green,blue"},
		{"{;list*}", ";list=red;list=green;list=blue"}, {"{;keys*}", ";comma=%2C;dot=.;semi=%3B"},
		{"{?x,y}", "?x=1024&y=768"}, {"{?x,y,empty}", "?x=1024&y=768&empty="}, {"{?x,y,undef}", "?x=1024&y=768"}, {"{?var:3}", "?var=val"},
		{"{?keys}", "?keys=comma,%2C,dot,.,semi,%3B"}, {"{?keys*}", "?comma=%2C&dot=.&semi=%3B"}, {"?fixed=yes{&x}", "?fixed=yes&x=1024"},
		{"{&list*}", "&list=red&list=green&list=blue"},
	}
	for _, tt := range tests {
		tmpl, err := Parse(tt.template)
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.template, err)
			continue
		}
		if got, err := tmpl.Expand(values); got != tt.want || err != nil {
			t.Errorf("Expand(%q): got %q, %v, want %q", tt.template, got, err, tt.want)
		}
		if tt.template == "X{.keys*}" {
			continue // a value is a dot: no way back
		}
		uri, _ := tmpl.Expand(values)
		found, ok := tmpl.Match(uri)
		if again, err := tmpl.Expand(found); !ok || again != uri || err != nil {
			t.Errorf("Match(%q, %q): got %v, %v, which makes %q", tt.template, uri, found, ok, again)
		}
	}
}

// Prefixes count characters, and what is not ASCII is written as its UTF-8.
func TestExpandUnicode(t *testing.T) {
	for template, want := range map[string]string{"{a:2}": "%C3%BC%E2%82%AC", "{+a}": "%C3%BC%E2%82%AC%F0%9F%98%80", "{?ö}": ""} {
		tmpl, err := Parse(template)
		if err != nil {
			if want != "" {
				t.Errorf("Parse(%q): %v", template, err)
			}
			continue
		}
		if got, _ := tmpl.Expand(map[string]any{"a": "ü€😀"}); got != want {
			t.Errorf("Expand(%q): got %q, want %q", template, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	tests := []struct {
		template, uri string
		want          map[string]any // nil is no match
	}{
		{"db://{table}/{id}", "db://users/7", map[string]any{"table": "users", "id": "7"}},
		{"db://{table}/{id}", "db://users/7/8", nil},
		{"db://{table}/{id}", "db://users", nil},
		{"db://{table}", "db://a%2Fb%20c", map[string]any{"table": "a/b c"}},
		{"db://{table}", "db://ü", map[string]any{"table": "ü"}},
		{"db://{table}", "db://%FF", nil},
		{"db://{table}", "db://", map[string]any{}},
		{"file:///{+path}", "file:///a/b.txt", map[string]any{"path": "a/b.txt"}},
		{"x:{a}-{a}", "x:1-1", map[string]any{"a": "1"}},
		{"x:{/a:1,a}", "x:/v/value", map[string]any{"a": "value"}},
		{"x:{/a:1,a}", "x:/w/value", nil},
		{"x:{a:2}", "x:abc", nil},
		{"x:{a:100}", "x:" + strings.Repeat("a", 101), nil},
		{"x:{/a*}", "x:/1/2/3", map[string]any{"a": []string{"1", "2", "3"}}},
		{"x:{/a*,b}", "x:/1/2/3", map[string]any{"a": []string{"1", "2"}, "b": "3"}},
		{"x:{/a,b}", "x:/1/2/3", nil},
		{"x{?a,b}", "x?b=2&a=1", map[string]any{"a": "1", "b": "2"}},
		{"x{?a,b}", "x?b=2", map[string]any{"b": "2"}},
		{"x{?a,b}", "x?c=2", nil},
		{"x{?a*}", "x?a=1&a=2", map[string]any{"a": []string{"1", "2"}}},
		{"x{?a*}", "x?k=1&l=2", map[string]any{"a": map[string]string{"k": "1", "l": "2"}}},
		{"x{?a*}", "x?k=1&a=2", nil},
		{"x{?a*}", "x?a=2&k=1", nil},
		{"x{?a*}", "x?k=1&k=2", nil},
		{"x{?a}", "x?a=1,2", map[string]any{"a": []string{"1", "2"}}},
		{"x{?a}", "x?a=1&a=2", nil},
		{"x{#a}", "x#", map[string]any{"a": ""}},
	}
	for _, tt := range tests {
		tmpl, err := Parse(tt.template)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := tmpl.Match(tt.uri)
		if ok != (tt.want != nil) || ok && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("Match(%q, %q): got %v, %v, want %v", tt.template, tt.uri, got, ok, tt.want)
		}
	}
}

func TestBadTemplates(t *testing.T) {
	for _, s := range []string{
		"{", "}", "{a", "a}", "{}", "{+}", "{a,}", "{,a}", "{a b}", "{a:0}", "{a:10000}", "{a:-1}", "{a:+1}", "{a:01}", "{a:x}", "{a:}", "{a**}", "{a*:1}",
		"{=a}", "{!a}", "{@a}", "{|a}", "{a.}", "{.a..b}", "{a{b}}", "%", "%4", "%zz", "a b", "<", "\x00", "\xff", "{%}", "^", "`",
	} {
		if _, err := Parse(s); err == nil {
			t.Errorf("Parse(%q): got no error", s)
		}
	}
	for _, s := range []string{"{a.b}", "{_a}", "{%41}", "{a:9999}", "a'b"} {
		if _, err := Parse(s); err != nil {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
	for name, v := range map[string]any{"a": 7, "b": []any{"x"}} {
		tmpl, _ := Parse("{" + name + "}")
		if _, err := tmpl.Expand(map[string]any{name: v}); err == nil {
			t.Errorf("Expand with a %T: got no error", v)
		}
	}
	tmpl, _ := Parse("{a:3}")
	if _, err := tmpl.Expand(map[string]any{"a": []string{"x"}}); err == nil {
		t.Error("the prefix of a list: got no error")
	}
}

// SECA-10: what would take long is refused: templates, values and URIs of 100 kB,
// and many expressions with a long URI.
func TestBounds(t *testing.T) {
	long := strings.Repeat("/a", 50_000)
	for _, s := range []string{long, strings.Repeat("{a}", 33), "{" + strings.Repeat("a,", 64) + "a}", "{" + strings.Repeat("a", MaxTemplate) + "}"} {
		if _, err := Parse(s); !errors.Is(err, ErrTooLong) {
			t.Errorf("Parse(%.20q…): got %v, want %v", s, err, ErrTooLong)
		}
	}
	for _, s := range []string{"x{/a*}", "x{+a}", "x{?a*}", "x{;a*}{?b*}{&c*}", strings.Repeat("{+a}", 32), strings.Repeat("{/a*}", 32)} {
		tmpl, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := tmpl.Match("x" + long); ok {
			t.Errorf("Match(%q) of 100 kB: got a match", s)
		}
		for _, v := range []any{long, strings.Split(long, "/"), map[string]string{long: ""}} {
			if _, err := tmpl.Expand(map[string]any{"a": v, "b": v}); !errors.Is(err, ErrTooLong) {
				t.Errorf("Expand(%q) with a value of 100 kB: got %v, want %v", s, err, ErrTooLong)
			}
		}
	}
	tmpl, _ := Parse("x{/a*}")
	found, ok := tmpl.Match("x" + long[:MaxURI-2])
	if list, _ := found["a"].([]string); !ok || len(list) != MaxURI/2-1 {
		t.Errorf("Match at the bound: got %d items, %v", len(list), ok)
	}
	many, _ := Parse(strings.Repeat("{+a}", 32))
	if _, ok := many.Match(long[:maxWork/32+1]); ok {
		t.Error("a long URI and many expressions: got a match")
	}
}

func TestNames(t *testing.T) {
	tmpl, err := Parse("{a,b}/{c*}/{a:3}")
	if got := tmpl.Names(); err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Names: got %v, %v", got, err)
	}
}

// FuzzTemplate compares with another implementation, within ASCII, and has every URI
// that was made matched.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{var}", "{+path:6}/here", "{/list*,path:4}", "{?keys*}", "{#a,b}", "x{;list*}", "{&x}{.dom*}", "%41{a}", "{a:9999}", "{", "ü"} {
		f.Add(s, "some value/ü", "x?a=1&b=2")
	}
	f.Fuzz(func(t *testing.T, template, value, uri string) {
		tmpl, err := Parse(template)
		if err != nil {
			return
		}
		tmpl.Match(uri)
		all := maps.Clone(values)
		all["a"], all["b"] = value, []string{value, ""}
		made, err := tmpl.Expand(all)
		if err != nil {
			return
		}
		if len(made) > MaxURI {
			t.Fatalf("Expand(%q): %d bytes", template, len(made))
		}
		compare(t, template, value, made, all)
	})
}

func compare(t *testing.T, template, value, made string, all map[string]any) {
	if strings.ContainsFunc(template+value, func(r rune) bool { return r > '~' || r < ' ' || r == '%' }) {
		return
	}
	other, err := reference.New(template)
	if err != nil {
		return
	}
	vars := reference.Values{}
	for name, v := range all {
		switch v := v.(type) {
		case string:
			vars[name] = reference.String(v)
		case []string:
			vars[name] = reference.List(v...)
		case map[string]string:
			var kv []string
			for _, k := range slices.Sorted(maps.Keys(v)) {
				kv = append(kv, k, v[k])
			}
			vars[name] = reference.KV(kv...)
		}
	}
	if want, err := other.Expand(vars); err == nil && want != made && !strings.Contains(template, ":") {
		t.Errorf("Expand(%q) with %q: got %q, the reference has %q", template, value, made, want)
	}
}
