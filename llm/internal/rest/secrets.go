package rest

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// Secrets returns what must not appear in an error: the key, what is in the
// headers that the user gave (which of them holds a key is unknown), and the password of
// the server's address, or its user's name without one, as it is and as it is sent. What is shorter than eight bytes is
// no secret: local servers are given words like "none" or "ollama", which must stay in a
// text.
func Secrets(key string, header http.Header, server *url.URL) []string {
	all := []string{key}
	for _, values := range header {
		for _, v := range values {
			all = append(all, v)
			if _, token, ok := strings.Cut(v, " "); ok { // "Bearer …"
				all = append(all, token)
			}
		}
	}
	if server != nil && server.User != nil {
		name := server.User.Username()
		password, ok := server.User.Password()
		if !ok { // then the name is the token
			all = append(all, name)
		}
		all = append(all, password, base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
	var secrets []string
	for _, s := range all {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			secrets = append(secrets, s)
		}
	}
	return secrets
}

// Shown is a URL as it may be shown: without password and query.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(not a URL)"
	}
	if u.User == nil && u.RawQuery == "" {
		return address
	}
	return u.Scheme + "://" + u.Host + u.Path
}
