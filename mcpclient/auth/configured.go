package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient"
)

// check says what is wrong with a configuration.
func check(cfg *mcpclient.OAuth) error {
	if cfg.ClientMetadataURL != "" {
		if err := oauth.CheckClientID(cfg.ClientMetadataURL); err != nil {
			return fmt.Errorf("oauth.clientMetadataUrl: %w", err)
		}
	}
	if cfg.RedirectURI != "" {
		if u, err := url.Parse(cfg.RedirectURI); err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "" || u.Scheme != "https" && !listens(u) {
			return fmt.Errorf("oauth.redirectUri %.200q: want https://host/path, or http://127.0.0.1:port/path", cfg.RedirectURI)
		}
	}
	switch method := oauth.AuthMethod(cfg.AuthMethod); method {
	case "":
	case oauth.AuthNone:
		if cfg.ClientSecret != "" || cfg.PrivateKey != "" {
			return errors.New("oauth.tokenEndpointAuthMethod is none, and there is a secret or a key")
		}
	case oauth.AuthBasic, oauth.AuthPost:
		if cfg.PrivateKey != "" || cfg.ClientID != "" && cfg.ClientSecret == "" {
			return fmt.Errorf("oauth.tokenEndpointAuthMethod %s needs oauth.clientSecret, and no key", method)
		}
	case oauth.AuthKey:
		if cfg.ClientID == "" || cfg.PrivateKey == "" {
			return fmt.Errorf("oauth.tokenEndpointAuthMethod %s needs oauth.clientId and oauth.privateKeyFile", method)
		}
	default:
		return fmt.Errorf("oauth.tokenEndpointAuthMethod %.40q: want %s, %s, %s or %s", method, oauth.AuthNone, oauth.AuthBasic, oauth.AuthPost, oauth.AuthKey)
	}
	return nil
}

// listens reports whether the program listens at an address that browsers are sent to.
func listens(u *url.URL) bool { return u.Scheme == "http" && netguard.IsLoopback(u.Hostname()) }

// resourceOf is the parameter "resource", for a server that publishes one.
func (c *Credential) resourceOf(published string) string {
	if c.server.OAuth.NoResource {
		return ""
	}
	return cmp.Or(c.server.OAuth.Resource, published)
}

// configuredFor reports whether tokens are those that the configuration is about.
func (c *Credential) configuredFor(p *credential) bool {
	return p.Issuer == cmp.Or(c.server.OAuth.Issuer, p.Issuer) && p.ClientID == cmp.Or(c.server.OAuth.ClientID, p.ClientID) &&
		p.Resource == c.resourceOf(p.Resource) && p.Grant == c.grantName() && p.From == c.server.OAuth.MetadataURL
}

// clientURL is the address of the description of the client; "" if there is none.
func (c *Credential) clientURL() string {
	return cmp.Or(c.server.OAuth.ClientMetadataURL, c.a.opts.ClientMetadataURL)
}

// fetchServer reads the metadata of an issuer, from the address that is configured if there is
// one.
func (c *Credential) fetchServer(ctx context.Context, issuer, from string) (*oauth.Server, error) {
	if from != "" {
		return oauth.FetchServerAt(ctx, c.http, from, issuer, oauth.OnLoopback(c.server.URL))
	}
	return oauth.FetchServer(ctx, c.http, issuer, oauth.OnLoopback(c.server.URL))
}
