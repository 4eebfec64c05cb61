package hostconfig

import (
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
	Issuer                 string
	ClientID, ClientSecret string
	Scopes                 []string
	Grant                  string // "" asks a person
	PrivateKeyFile, KeyID  string // the file is absolute
	NoResource             bool
}

// oauthKeys are the keys of oauth, those of other hosts among them.
var oauthKeys = []field{
	{keys: []string{"clientId", "client_id", "CLIENT_ID"}, read: textOf(func(e *entry) *string { return &e.Authorization.ClientID })},
	{keys: []string{"clientSecret", "client_secret", "CLIENT_SECRET"}, read: textOf(func(e *entry) *string { return &e.Authorization.ClientSecret })},
	{keys: []string{"issuer"}, read: textOf(func(e *entry) *string { return &e.Authorization.Issuer })},
	{keys: []string{"scopes", "scope"}, read: (*entry).readScopes},
	{keys: []string{"grant"}, read: (*entry).readGrant},
	{keys: []string{"privateKeyFile"}, read: textOf(func(e *entry) *string { return &e.Authorization.PrivateKeyFile })},
	{keys: []string{"keyId"}, read: textOf(func(e *entry) *string { return &e.Authorization.KeyID })},
	{keys: []string{"resource"}, read: func(e *entry, key string, v *hujson.Value) {
		if e.text(key, v) != "none" {
			e.fail(v, key, `must be "none": the resource is what the server publishes, and can only be left out`)
		}
		e.Authorization.NoResource = true
	}},
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
	var known []string
	for _, f := range oauthKeys {
		known = append(known, f.keys[0])
	}
	for i := range o.Members {
		m := &o.Members[i]
		at := slices.IndexFunc(oauthKeys, func(f field) bool { return slices.Contains(f.keys, name(m)) })
		if at < 0 {
			e.warn(&m.Name, key+"."+name(m), "is not known and is ignored; known are "+strings.Join(known, ", "))
			continue
		}
		oauthKeys[at].read(e, key+"."+name(m), &m.Value)
	}
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
	case "client_credentials":
		e.Authorization.Grant = g
	default:
		e.fail(v, key, "%.40q is not known; it is authorization_code or client_credentials", g)
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
	if a.PrivateKeyFile != "" {
		a.PrivateKeyFile = e.absolute(a.PrivateKeyFile)
	}
}

// maxKeyFile bounds a private key, in bytes.
const maxKeyFile = 64 << 10

// ReadKey reads a private key.
func ReadKey(path string) (string, error) {
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
