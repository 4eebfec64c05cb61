package hostconfig

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Authorization is what a file says of the authorization at a server.
type Authorization struct {
	Off                    bool // oauth is false
	Issuer, MetadataURL    string
	ClientID, ClientSecret string
	ClientMetadataURL      string
	RedirectURI            string
	AuthMethod             string
	Scopes                 []string
	Grant                  string // "" asks a person
	PrivateKeyFile, KeyID  string // the file is absolute
	AssertionCommand       string // prints the assertion of a grant
	IdentityProvider       struct{ Issuer, ClientID, ClientSecret string }
	Resource               string // "" is what the server publishes
	NoResource             bool
}

// noResource is the resource of tokens that are not bound to one.
const noResource = "none"

// oauthKeys are the keys of oauth, those of other hosts among them.
var oauthKeys = []field{
	{keys: []string{"clientId", "client_id", "CLIENT_ID"}, read: textOf(func(e *entry) *string { return &e.Authorization.ClientID })},
	{keys: []string{"clientSecret", "client_secret", "CLIENT_SECRET"}, read: textOf(func(e *entry) *string { return &e.Authorization.ClientSecret })},
	{keys: []string{"issuer"}, read: textOf(func(e *entry) *string { return &e.Authorization.Issuer })},
	{keys: []string{"scopes", "scope"}, read: (*entry).readScopes},
	{keys: []string{"grant"}, read: (*entry).readGrant},
	{keys: []string{"privateKeyFile"}, read: textOf(func(e *entry) *string { return &e.Authorization.PrivateKeyFile })},
	{keys: []string{"keyId"}, read: textOf(func(e *entry) *string { return &e.Authorization.KeyID })},
	{keys: []string{"assertionCommand"}, read: textOf(func(e *entry) *string { return &e.Authorization.AssertionCommand })},
	{keys: []string{"idp"}, read: (*entry).readIdentityProvider},
	{keys: []string{"authServerMetadataUrl"}, read: textOf(func(e *entry) *string { return &e.Authorization.MetadataURL })},
	{keys: []string{"clientMetadataUrl"}, read: textOf(func(e *entry) *string { return &e.Authorization.ClientMetadataURL })},
	{keys: []string{"redirectUri", "redirect_uri"}, read: textOf(func(e *entry) *string { return &e.Authorization.RedirectURI })},
	{keys: []string{"callbackPort"}, read: (*entry).readCallbackPort},
	{keys: []string{"tokenEndpointAuthMethod", "token_endpoint_auth_method"}, read: textOf(func(e *entry) *string { return &e.Authorization.AuthMethod })},
	{keys: []string{"resource"}, read: func(e *entry, key string, v *hujson.Value) {
		e.Authorization.Resource = e.text(key, v)
	}},
	{keys: []string{"enabled"}, read: func(e *entry, key string, v *hujson.Value) { e.Authorization.Off = !e.boolean(key, v) }},
}

// identityKeys are the keys of oauth.idp.
var identityKeys = []field{
	{keys: []string{"issuer"}, read: textOf(func(e *entry) *string { return &e.Authorization.IdentityProvider.Issuer })},
	{keys: []string{"clientId", "client_id"}, read: textOf(func(e *entry) *string { return &e.Authorization.IdentityProvider.ClientID })},
	{keys: []string{"clientSecret", "client_secret"}, read: textOf(func(e *entry) *string { return &e.Authorization.IdentityProvider.ClientSecret })},
}

// withoutOAuth are keys of other hosts that would be missed, and what to do in their place.
var withoutOAuth = map[string]string{
	"authorizationUrl": "is not supported: endpoints are those that the authorization server publishes; name its metadata with authServerMetadataUrl",
	"tokenUrl":         "is not supported: endpoints are those that the authorization server publishes; name its metadata with authServerMetadataUrl",
	"audiences":        "is not supported: a token is for the one resource that the server publishes, or that resource names",
}

// readOAuth reads true (find everything out), false (leave the server alone), or an object.
func (e *entry) readOAuth(key string, v *hujson.Value) {
	e.OAuth = raw(v)
	switch literal(v) {
	case "true", "null":
		return
	case "false":
		e.Authorization.Off = true
		return
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		e.fail(v, key, "must be true, false or an object, is %s", kindOf(v))
		return
	}
	e.readKeys(key, o, oauthKeys)
}

// readKeys reads an object whose unknown keys are ignored with a warning.
func (e *entry) readKeys(key string, o *hujson.Object, fields []field) {
	var known []string
	for _, f := range fields {
		known = append(known, f.keys[0])
	}
	given := make([]string, len(fields))
	for i := range o.Members {
		m := &o.Members[i]
		at := slices.IndexFunc(fields, func(f field) bool { return slices.Contains(f.keys, name(m)) })
		switch {
		case at < 0:
			e.warn(&m.Name, key+"."+name(m), cmp.Or(withoutOAuth[name(m)], "is not known and is ignored; known are "+strings.Join(known, ", ")))
			continue
		case given[at] != "":
			e.fail(&m.Name, key+"."+name(m), "says the same as %q; keep one of them", given[at])
			continue
		}
		given[at] = name(m)
		fields[at].read(e, key+"."+name(m), &m.Value)
	}
}

func (e *entry) readIdentityProvider(key string, v *hujson.Value) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		e.fail(v, key, "must be an object with issuer, clientId and clientSecret, is %s", kindOf(v))
		return
	}
	e.readKeys(key, o, identityKeys)
}

// readCallbackPort reads the port of the redirect address that Claude Code has.
func (e *entry) readCallbackPort(key string, v *hujson.Value) {
	if e.Authorization.RedirectURI != "" {
		e.fail(v, key, "says the same as redirectUri; keep one of them")
	}
	e.Authorization.RedirectURI = fmt.Sprintf("http://localhost:%d/callback", e.number(key, v, "port", 65535))
}

// readScopes reads a list, or one text with spaces between them.
func (e *entry) readScopes(key string, v *hujson.Value) {
	if _, list := v.Value.(*hujson.Array); list {
		e.Authorization.Scopes = e.list(key, v)
		return
	}
	e.Authorization.Scopes = strings.Fields(e.text(key, v))
}

func (e *entry) readGrant(key string, v *hujson.Value) {
	switch g := e.text(key, v); g {
	case "authorization_code", "":
	case "client_credentials", "jwt-bearer", "enterprise":
		e.Authorization.Grant = g
	default:
		e.fail(v, key, "%.40q is not known; it is authorization_code, client_credentials, jwt-bearer or enterprise", g)
	}
}

// expandOAuth replaces the variables in the texts of oauth.
func (e *entry) expandOAuth() {
	a := &e.Authorization
	e.expandText("oauth", "oauth.clientId", &a.ClientID)
	e.expandText("oauth", "oauth.clientSecret", &a.ClientSecret)
	e.expandText("oauth", "oauth.issuer", &a.Issuer)
	e.expandText("oauth", "oauth.privateKeyFile", &a.PrivateKeyFile)
	e.expandText("oauth", "oauth.keyId", &a.KeyID)
	e.expandText("oauth", "oauth.assertionCommand", &a.AssertionCommand)
	e.expandText("oauth", "oauth.idp.issuer", &a.IdentityProvider.Issuer)
	e.expandText("oauth", "oauth.idp.clientId", &a.IdentityProvider.ClientID)
	e.expandText("oauth", "oauth.idp.clientSecret", &a.IdentityProvider.ClientSecret)
	e.expandText("oauth", "oauth.authServerMetadataUrl", &a.MetadataURL)
	e.expandText("oauth", "oauth.clientMetadataUrl", &a.ClientMetadataURL)
	e.expandText("oauth", "oauth.redirectUri", &a.RedirectURI)
	e.expandText("oauth", "oauth.resource", &a.Resource)
	if a.Resource == noResource {
		a.Resource, a.NoResource = "", true
	}
	if a.PrivateKeyFile != "" {
		a.PrivateKeyFile = e.absolute(a.PrivateKeyFile)
	}
}

// maxKeyFile bounds a private key, in bytes.
const maxKeyFile = 64 << 10

// ReadKey reads a private key.
func ReadKey(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a read of another one may wait for ever
		return "", cmp.Or(err, fmt.Errorf("%s is not a regular file", path))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(text) > maxKeyFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxKeyFile)
	}
	return string(text), err
}
