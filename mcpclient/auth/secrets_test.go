package auth_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// Tokens, codes, verifiers, states and secrets of clients appear in no error, in no log, in no
// text of what is exported, and not in the file of a store (AUTH-05, SECA-24, SECA-27).
func TestPlantedSecrets(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(filepath.Join(dir, "store.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := loopbackOn(t, db)
	t.Cleanup(func() { _ = db.Close() })
	k.secret, k.query = "client-secret-registered", "?key=query-secret"
	var shown strings.Builder
	show := func(all ...any) {
		for _, v := range all {
			fmt.Fprintf(&shown, "%v\n%+v\n%#v\n%s\n%q\n", v, v, v, v, v)
			slog.New(slog.NewJSONHandler(&shown, nil)).Info("shown", "value", v)
			slog.New(slog.NewTextHandler(&shown, nil)).Info("shown", "value", v)
		}
	}
	dial := func(p *process) {
		t.Helper()
		c, err := mcpclient.Dial(t.Context(), *p.server(), &mcpclient.Options{System: p.sys, Authorizer: p.auth})
		if show(err); err != nil {
			return
		}
		for range 2 { // the second with a token that is renewed
			_, err = c.CallTool(t.Context(), "t", nil, nil)
			show(err)
			k.set(func() { clear(k.access) })
		}
		k.set(func() { k.trouble = 503 })
		_, err = c.CallTool(t.Context(), "t", nil, nil)
		show(err, c.Status())
		k.set(func() { k.trouble = 0; k.wants = map[string]string{"t": "x"} })
		_, err = c.CallTool(t.Context(), "t", nil, nil)
		show(err)
		k.set(func() { k.wants = nil; clear(k.access); clear(k.refresh) })
		_ = c.Close()
	}
	k.is(func(ctx context.Context, r *auth.Request) error {
		show(r.Server, r.Name, r.Resource, r.Issuer, r.ClientID, r.Scopes, r.Why)
		return k.browse(ctx, r, 200)
	})
	dial(k.process)
	configured := k.another(func(o *auth.Options) { o.RedirectURI = "" })
	configured.cfg = mcpclient.OAuth{Issuer: k.base + "/as1", ClientID: "configured", ClientSecret: k.secret}
	configured.is(func(ctx context.Context, r *auth.Request) error {
		at, err := k.visit(ctx, r)
		k.set(func() { clear(k.codes) }) // the server refuses the code, and repeats what it got
		k.browser("GET", at, "")
		return err
	})
	dial(configured)
	k.set(func() { k.resource = "https://victim.example" })
	dial(configured)
	for _, want := range []string{"no grant for", "about another resource", "503"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("no error with %q is shown", want)
		}
	}
	login := &auth.LoginError{Server: k.base + "/mcp"}
	keyed := auth.Options{Keys: [][]byte{k.key}}
	provider := mcpclient.IdentityProvider{Issuer: "i", ClientID: "c", ClientSecret: "idp-secret-1"}
	full := mcpclient.OAuth{ClientSecret: "client-secret-2", PrivateKey: "key-secret-3", IdentityProvider: provider}
	show(keyed, &keyed, provider, &provider, full, &full, mcpclient.Server{OAuth: full}, &mcpclient.Server{OAuth: full})
	show(k.auth, k.credential(), configured.auth, configured.credential(), login, *login)
	secrets := append([]string{"-secret-", string(k.key), strings.Trim(fmt.Sprint(k.key), "[]")}, k.verifiers...)
	secrets = append(secrets, k.states...)
	if len(k.verifiers) < 2 || k.verifiers[0] == "" || k.states[0] == "" || k.count("refresh_token") == 0 {
		t.Fatalf("too little has happened: %q %q", k.verifiers, k.states)
	}
	texts := map[string]string{"what is shown": shown.String(), "the log": k.log.String(), "the other log": configured.log.String()}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got the files %q, %v", files, err)
	}
	kept := false
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(data)
		kept = kept || strings.Contains(string(data), "oauth token")
	}
	if !kept {
		t.Errorf("the tokens are in none of %q", files)
	}
	for where, text := range texts {
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has %q: …%.200q…", where, secret, text[max(0, i-100):])
			}
		}
	}
}
