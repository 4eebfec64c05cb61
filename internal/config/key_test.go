package config_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

// SECA-27: no way of printing, encoding or logging shows a key, however deep it is in
// something else.
func TestKeysAreNeverShown(t *testing.T) {
	const canary = "sk-canary-0123456789"
	key := config.NewKey(canary)
	type hidden struct{ key config.Key }
	type open struct {
		Key  config.Key
		Ptr  *config.Key
		Map  map[string]config.Key
		List []config.Key
	}
	deep := open{key, &key, map[string]config.Key{"a": key}, []config.Key{key}}
	cfg, err := config.Parse("f.yaml", []byte("version: 1\nmodels: { providers: { x: { base_url: 'http://127.0.0.1:1', api_key_env: K, headers: { X-Key: "+canary+" } } } }"), false)
	if err != nil {
		t.Fatal(err)
	}
	server, err := cfg.Server("x", func(string) string { return canary })
	if err != nil || server.APIKey.Reveal() != canary || server.Header().Get("X-Key") != canary {
		t.Fatalf("Server: got error %v, want the key", err)
	}
	values := []any{key, &key, hidden{key}, &hidden{key}, deep, &deep, []any{key}, server, &server, cfg, *cfg, errors.Join(fmt.Errorf("with %v", key))}
	var out bytes.Buffer
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "%-5v"} {
			fmt.Fprintf(&out, verb, v)
		}
		out.WriteString(fmt.Sprint(v) + fmt.Sprintln(v))
		for _, encode := range []func(any) ([]byte, error){json.Marshal, jsonx.Marshal, yaml.Marshal, xml.Marshal} {
			data, _ := encode(v) // some cannot be encoded, which shows nothing either
			out.Write(data)
		}
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("x", "v", v, slog.Group("g", "v", v))
		}
	}
	for _, form := range []string{canary, "canary", fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), "c2stY2FuYX"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("something shows the key as %q", form)
		}
	}
	if !strings.Contains(out.String(), "***") {
		t.Error("nothing shows that there is a key")
	}
	if s := fmt.Sprint(config.Key{}, config.NewKey("")); strings.Contains(s, "*") || !config.NewKey("").IsZero() {
		t.Errorf("no key: got %q", s)
	}
}
