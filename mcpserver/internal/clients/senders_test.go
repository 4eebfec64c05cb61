package clients

import (
	"fmt"
	"testing"
)

// metaOf is the _meta of a modern request.
func metaOf(own, capabilities, name, level string) []byte {
	raw := fmt.Sprintf(`{%s"io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":%q,"version":"1"}`, own, capabilities, name)
	if level != "" {
		raw += fmt.Sprintf(`,"io.modelcontextprotocol/logLevel":%q`, level)
	}
	return []byte(raw + "}")
}

// Requests of one client are of one sender, whatever else they say; what one client has
// said of itself is never another's (CAP-05).
func TestSender(t *testing.T) {
	sampling, long := `{"sampling":{}}`, fmt.Sprintf(`"dev.example/x":"%*d",`, maxKnownMeta, 1)
	tests := []struct {
		name string
		raw  []byte
		same bool
	}{
		{"the same bytes", metaOf("", sampling, "one", ""), true},
		{"a progress token", metaOf(`"progressToken":7,`, sampling, "one", ""), true},
		{"another token", metaOf(`"progressToken":"eight",`, sampling, "one", ""), true},
		{"much else", metaOf(long, sampling, "one", ""), true},
		{"other capabilities", metaOf("", "{}", "one", ""), false},
		{"another name", metaOf("", sampling, "two", ""), false},
		{"a log level", metaOf("", sampling, "one", "info"), false},
	}
	for _, shared := range []bool{false, true} {
		for _, test := range tests {
			s := new(Senders)
			if shared {
				s.Share()
			}
			first, err := s.Read(metaOf("", sampling, "one", ""))
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Read(test.raw)
			if err != nil || (got == first) != test.same {
				t.Errorf("%s, shared %v: got the same sender %v, %v; want %v", test.name, shared, got == first, err, test.same)
				continue
			}
			if !test.same && got.Info.Name == first.Info.Name && got.Level == first.Level && (got.Capabilities.Sampling == nil) == (first.Capabilities.Sampling == nil) {
				t.Errorf("%s, shared %v: got what the other has said: %+v", test.name, shared, got)
			}
			if again, err := s.Read(test.raw); again != got || err != nil {
				t.Errorf("%s, shared %v, again: got another sender, %v", test.name, shared, err)
			}
		}
	}
}

// What is kept of a _meta gives it back as it came (META-01).
func TestKeptMeta(t *testing.T) {
	first := []byte(`{"a":1,"b":2}`)
	tests := []struct {
		first, raw string
		own        int // bytes that are kept
	}{
		{`{"a":1,"b":2}`, `{"a":1,"b":2}`, 0},
		{`{"a":1,"b":2}`, `{"a":1,"x":"y","b":2}`, len(`x":"y","`)},
		{`{"a":1,"b":2}`, `{"a":17,"b":2}`, 1},
		{`{"a":1,"b":2}`, `{"b":2}`, 0},
		{`{"a":1}`, `{"a":1,"a1":1}`, len(`"a1":1,`)},
		{"", `{"a":1}`, len(`{"a":1}`)},
		{`{"a":1}`, "{}", 0},
	}
	for _, test := range tests {
		c := &Client{first: []byte(test.first)}
		kept := c.Meta([]byte(test.raw))
		if got := kept.Raw(c); string(got) != test.raw || kept.Size() != len(test.raw) {
			t.Errorf("keeping %s beside %s: got %s, size %d", test.raw, test.first, got, kept.Size())
		}
		if len(kept.Own) != test.own {
			t.Errorf("keeping %s beside %s: kept %q, want %d bytes", test.raw, test.first, kept.Own, test.own)
		}
	}
	if raw := (Meta{}).Raw(&Client{first: first}); raw != nil {
		t.Errorf("no _meta: got %s", raw)
	}
}
