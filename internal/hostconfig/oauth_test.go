package hostconfig

import (
	"fmt"
	"strings"
	"testing"
)

// oauth is read in the spellings of other hosts, and in whole.
func TestOAuth(t *testing.T) {
	t.Setenv("CRM_SECRET", "s3cret")
	for name, test := range map[string]struct {
		server   string
		want     Authorization
		warnings string
		err      string
	}{
		"claude code": {`"oauth": {"clientId": "c", "callbackPort": 8080, "authServerMetadataUrl": "https://as.example/meta", "scopes": "read write"}`,
			Authorization{ClientID: "c", RedirectURI: "http://localhost:8080/callback", MetadataURL: "https://as.example/meta", Scopes: []string{"read", "write"}}, "", ""},
		"cursor": {`"auth": {"CLIENT_ID": "c", "CLIENT_SECRET": "${env:CRM_SECRET}", "scopes": ["read"]}`,
			Authorization{ClientID: "c", ClientSecret: "s3cret", Scopes: []string{"read"}}, "", ""},
		"gemini": {`"oauth": {"enabled": true, "clientId": "c", "clientSecret": "s", "redirectUri": "http://localhost:7777/oauth/callback", "tokenUrl": "https://as.example/t", "audiences": ["a"], "tokenParamName": "x"}`,
			Authorization{ClientID: "c", ClientSecret: "s", RedirectURI: "http://localhost:7777/oauth/callback"},
			"oauth.tokenUrl is not supported: endpoints are those|oauth.audiences is not supported|oauth.tokenParamName is not known and is ignored; known are clientId,", ""},
		"gemini, off": {`"oauth": {"enabled": false}`, Authorization{Off: true}, "", ""},
		"vs code":     {`"oauth": {"clientId": "c", "clientSecret": "s"}`, Authorization{ClientID: "c", ClientSecret: "s"}, "", ""},
		"snake case": {`"oauth": {"client_id": "c", "client_secret": "s", "scope": "a", "redirect_uri": "https://x.example/", "token_endpoint_auth_method": "client_secret_post"}`,
			Authorization{ClientID: "c", ClientSecret: "s", Scopes: []string{"a"}, RedirectURI: "https://x.example/", AuthMethod: "client_secret_post"}, "", ""},
		"enterprise": {`"oauth": {"grant": "enterprise", "issuer": "https://as.example", "clientId": "c", "clientMetadataUrl": "https://me.example/c.json", "assertionCommand": "id-token --for ${CRM_SECRET}",
			"idp": {"issuer": "https://idp.example", "clientId": "i", "clientSecret": "${CRM_SECRET}"}, "privateKeyFile": "k.pem", "keyId": "1", "resource": "https://r.example/mcp"}`,
			Authorization{
				Grant: "enterprise", Issuer: "https://as.example", ClientID: "c", ClientMetadataURL: "https://me.example/c.json", AssertionCommand: "id-token --for s3cret",
				IdentityProvider: struct{ Issuer, ClientID, ClientSecret string }{"https://idp.example", "i", "s3cret"}, PrivateKeyFile: "/p/k.pem", KeyID: "1", Resource: "https://r.example/mcp",
			}, "", ""},
		"workload":       {`"oauth": {"grant": "jwt-bearer", "assertionCommand": "cat /token", "resource": "none"}`, Authorization{Grant: "jwt-bearer", AssertionCommand: "cat /token", NoResource: true}, "", ""},
		"off":            {`"oauth": false`, Authorization{Off: true}, "", ""},
		"unknown in idp": {`"oauth": {"idp": {"issuer": "x", "url": "y"}}`, Authorization{IdentityProvider: struct{ Issuer, ClientID, ClientSecret string }{Issuer: "x"}}, "oauth.idp.url is not known and is ignored; known are issuer, clientId, clientSecret", ""},
		"twice":          {`"oauth": {"clientId": "a", "client_id": "b"}`, Authorization{}, "", `oauth.client_id: says the same as "clientId"; keep one of them`},
		"two redirects":  {`"oauth": {"redirectUri": "https://x.example/", "callbackPort": 1}`, Authorization{}, "", "says the same as redirectUri"},
		"a bad port":     {`"oauth": {"callbackPort": 70000}`, Authorization{}, "", "must be a port from 1 to 65535"},
		"a bad grant":    {`"oauth": {"grant": "password"}`, Authorization{}, "", "it is authorization_code, client_credentials, jwt-bearer or enterprise"},
		"a bad idp":      {`"oauth": {"idp": "https://idp.example"}`, Authorization{}, "", "must be an object with issuer, clientId and clientSecret"},
		"no variable":    {`"oauth": {"clientSecret": "${CRM_SECRET_NOT_SET}"}`, Authorization{}, "", "CRM_SECRET_NOT_SET"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Parse("/p/.mcp.json", []byte(`{"mcpServers": {"s": {"url": "https://s.example/mcp", `+test.server+`}}}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			s := file.Servers[0]
			if test.err != "" {
				if s.Err == nil || !strings.Contains(s.Err.Error(), test.err) {
					t.Errorf("got the error %v, want %q", s.Err, test.err)
				}
				return
			}
			if got, want := fmt.Sprintf("%+v", s.Authorization), fmt.Sprintf("%+v", test.want); got != want || s.Err != nil {
				t.Errorf("got %s, %v\nwant %s", got, s.Err, want)
			}
			for i, want := range strings.Split(test.warnings, "|") {
				if want != "" && (len(s.Warnings) <= i || !strings.Contains(s.Warnings[i], want)) || test.warnings == "" && len(s.Warnings) != 0 {
					t.Errorf("got the warnings %q, want %q", s.Warnings, test.warnings)
				}
			}
		})
	}
}

// A changed key of oauth changes the hash of the definition, whichever it is: the approval of a
// project's file has to be given again (SEC-20).
func TestOAuthIsPinned(t *testing.T) {
	hashes := map[string]string{}
	for _, oauth := range []string{`true`, `false`, `{}`, `{"clientSecret":"x"}`, `{"clientSecret":"y"}`, `{"authServerMetadataUrl":"https://x.example/"}`, `{"resource":"none"}`,
		`{"assertionCommand":"x"}`, `{"assertionCommand":"y"}`, `{"idp":{"issuer":"x"}}`, `{"redirectUri":"https://x.example/"}`, `{"privateKeyFile":"x"}`} {
		file, err := Parse("/p/.mcp.json", []byte(`{"mcpServers": {"s": {"url": "https://s.example/mcp", "oauth": `+oauth+`}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if other := hashes[file.Servers[0].Hash]; other != "" {
			t.Errorf("%s and %s have one hash", oauth, other)
		}
		hashes[file.Servers[0].Hash] = oauth
	}
}
