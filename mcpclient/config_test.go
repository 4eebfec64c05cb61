package mcpclient

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

func TestLoadConfig(t *testing.T) {
	t.Setenv("TROUPE_TEST_TOKEN", "s3cret")
	file := filepath.Join(t.TempDir(), ".mcp.json")
	config := `{
		// comments are fine
		"mcpServers": {
			"files": {"command": "npx", "args": ["-y", "files"], "env": {"TOKEN": "${TROUPE_TEST_TOKEN}", "HOME": null}, "timeout": 5000, "instances": 2, "noAsk": true,
				"excludeTools": ["rm"], "trust": true},
			"unset": {"command": "x", "env": {"A": "${TROUPE_TEST_NOT_SET}"}},
			"web": {"url": "https://example.com/mcp", "headers": {"X": "y"}},
			"caged": {"command": "x", "sandbox": true},
			"off": {"command": "x", "disabled": true},
		}
	}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Server{}
	for _, s := range servers {
		byName[s.Name] = s
	}
	files := byName["files"]
	if files.Command != "npx" || *files.Env["TOKEN"] != "s3cret" || files.Env["HOME"] != nil || files.CallTimeout != 5*time.Second || files.Instances != 2 || !files.NoAsk ||
		files.allows("rm") || files.Trusted || files.File != file || files.Hash == "" || files.Dir != filepath.Dir(file) || files.Err != nil {
		t.Errorf("files: got %+v", files)
	}
	if err := byName["unset"].Err; err == nil || !strings.Contains(err.Error(), "TROUPE_TEST_NOT_SET") || !strings.Contains(err.Error(), "unset") {
		t.Errorf("unset: got %v, want an error that names server and variable", err)
	}
	if byName["web"].URL == "" || !errors.Is(byName["caged"].Err, errors.ErrUnsupported) || !byName["off"].Disabled {
		t.Errorf("got %+v", byName)
	}
	if _, err := LoadConfig(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}

// What a file says of authorization is taken over whole. A command of it is run when its
// assertion is wanted, is shown for consent, and is in no error with what it prints; a key file
// that is none is not waited for.
func TestLoadConfigOAuth(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, ".mcp.json")
	config := `{"mcpServers": {
		"s": {"url": "https://s.example/mcp", "oauth": {"grant": "enterprise", "issuer": "https://as.example", "clientId": "c", "clientSecret": "x", "scopes": ["a"], "assertionCommand": "echo jwt",
			"idp": {"issuer": "https://idp.example", "clientId": "i", "clientSecret": "y"}, "authServerMetadataUrl": "https://as.example/meta", "clientMetadataUrl": "https://me.example/c",
			"callbackPort": 99, "tokenEndpointAuthMethod": "client_secret_post", "resource": "https://r.example"}},
		"fails": {"url": "https://s.example/mcp", "headersHelper": "helper", "oauth": {"assertionCommand": "ls /nowhere/at/all"}},
		"folder": {"url": "https://s.example/mcp", "oauth": {"privateKeyFile": "."}},
		"quote": {"url": "https://s.example/mcp", "oauth": {"assertionCommand": "'"}},
		"plain": {"command": "a", "args": ["b c"]}
	}}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	got := all[0].OAuth
	assertion := got.Assertion
	got.Assertion = nil
	want := OAuth{
		Grant: GrantEnterprise, Issuer: "https://as.example", ClientID: "c", ClientSecret: "x", Scopes: []string{"a"}, IdentityProvider: IdentityProvider{"https://idp.example", "i", "y"},
		MetadataURL: "https://as.example/meta", ClientMetadataURL: "https://me.example/c", RedirectURI: "http://localhost:99/callback", AuthMethod: "client_secret_post", Resource: "https://r.example",
	}
	if !reflect.DeepEqual(got, want) || all[0].Err != nil {
		t.Errorf("got %#v, %v", got, all[0].Err)
	}
	if text, err := assertion(t.Context()); text != "jwt" || err != nil {
		t.Errorf("the assertion: got %q, %v", text, err)
	}
	if _, err := all[1].OAuth.Assertion(t.Context()); err == nil || !strings.Contains(err.Error(), "running oauth.assertionCommand ls") {
		t.Errorf("a command that fails: got %v", err)
	}
	for i, want := range []string{"echo jwt", "helper|ls /nowhere/at/all", "", "'", "a 'b c'"} {
		var runs []string
		for _, part := range all[i].Reach(true) {
			if line, ok := strings.CutPrefix(part, "runs on this computer: "); ok {
				runs = append(runs, line)
			}
		}
		if all[i].Command != "" {
			runs = append(runs, all[i].Reach(true)[0])
		}
		if got := strings.Join(runs, "|"); got != want || all[i].RunsHere() != (want != "") {
			t.Errorf("%s runs %q, want %q", all[i].Name, got, want)
		}
	}
	if all[2].Err == nil || !strings.Contains(all[2].Err.Error(), "is not a regular file") || all[3].Err == nil || !strings.Contains(all[3].Err.Error(), "oauth.assertionCommand") {
		t.Errorf("got %v and %v", all[2].Err, all[3].Err)
	}
}

// A host says once what of its configuration is ignored.
func TestHostLogsWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuilder
		srv := InProcess("s", newWire(mcp.V2025_11_25, nil))
		srv.Warnings = []string{"a.json:1: oauth is not supported"}
		h, err := NewHost(newSystem(t), []Server{srv}, &HostOptions{Options: Options{Logger: logTo(&log)}})
		if err != nil {
			t.Fatal(err)
		}
		defer closeHost(t, h)
		if n := strings.Count(log.String(), "oauth is not supported"); n != 1 || len(h.Servers()[0].Warnings) != 1 {
			t.Errorf("%d log entries, warnings %q", n, h.Servers()[0].Warnings)
		}
	})
}
