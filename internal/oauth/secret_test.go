package oauth_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// planted is a text that must appear nowhere but on the wire.
const planted = "canary-7c1f0e9b"

// holder has secrets in all the places where package fmt may find them.
type holder struct {
	Shown  oauth.Secret
	hidden oauth.Secret
	list   []oauth.Secret
	table  map[string]oauth.Secret
	deep   *oauth.Secret
}

// A secret is not shown, however it is printed, logged or encoded (SECA-27).
func TestSecret(t *testing.T) {
	s := oauth.NewSecret(planted)
	key := signingKeys(t)["EdDSA"] // a slice of bytes, which package fmt would print
	h := holder{s, s, []oauth.Secret{s}, map[string]oauth.Secret{"k": s}, &s}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%10.3s", "%!"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", &s)
		fmt.Fprintf(&out, verb+"\n", h)
		fmt.Fprintf(&out, verb+"\n", &h)
		fmt.Fprintf(&out, verb+"\n", oauth.Token{Access: s, Refresh: s})
		fmt.Fprintf(&out, verb+"\n", &oauth.Client{Secret: s, Key: key})
		fmt.Fprintf(&out, verb+"\n", key)
		fmt.Fprintf(&out, verb+"\n", *key)
		fmt.Fprintf(&out, verb+"\n", oauth.RefreshGrant(s, nil))
		fmt.Fprintf(&out, verb+"\n", *oauth.AssertionGrant(s, nil))
	}
	fmt.Fprintln(&out, s, h, fmt.Errorf("with %v and %s", s, s))
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("a log", "key", key, "grant", oauth.RefreshGrant(s, nil), "secret", s, "holder", h, "pointer", &s)
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, jsonx.Marshal, xml.Marshal} {
		for _, v := range []any{s, &s, []oauth.Secret{s}, oauth.Token{Access: s}} {
			data, err := encode(v)
			if err != nil {
				t.Errorf("encoding %T: %v", v, err)
			}
			out.Write(data)
		}
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse("{{.}} {{.Shown}} {{printf \"%s\" .Shown}}")).Execute(&b, h); err != nil {
		t.Error(err)
	}
	out.Write(b.Bytes())
	raw := []byte(privateKeys()["EdDSA"].(ed25519.PrivateKey)[:8])
	for _, form := range []string{strings.Trim(fmt.Sprint(raw), "[]"), fmt.Sprintf("%x", raw), strings.Trim(fmt.Sprintf("%#v", raw), "[]byte{}"), planted, fmt.Sprintf("%x", planted), fmt.Sprintf("%X", planted), "canary"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the secret was shown as %q in:\n%s", form, out.String())
		}
	}
	if s.Reveal() != planted || s.String() != "***" || oauth.NewSecret("").String() != "" || !oauth.NewSecret("").IsZero() {
		t.Errorf("got %q and %q", s.Reveal(), s.String())
	}
	if !s.Equal(oauth.NewSecret(planted)) || s.Equal(oauth.NewSecret(planted+"x")) || s.Equal(oauth.Secret{}) {
		t.Error("Equal is wrong")
	}
	var back struct{ S, N, E oauth.Secret }
	if err := jsonx.Unmarshal([]byte(`{"S":"`+planted+`","N":null,"E":""}`), &back); err != nil || back.S.Reveal() != planted || !back.N.IsZero() || !back.E.IsZero() {
		t.Errorf("decoding: got %v", err)
	}
	if data, err := jsonx.Marshal(back); err != nil || jsonx.Unmarshal(data, &back) == nil {
		t.Errorf("a hidden secret was read back from %s: want an error, as the secret is lost", data)
	}
	if err := jsonx.Unmarshal([]byte(`{"S":{"a":"`+planted+`"}}`), &back); err == nil || strings.Contains(err.Error(), planted) {
		t.Errorf("decoding an object: got %v, want an error without the text", err)
	}
}
