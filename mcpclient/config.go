package mcpclient

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/icons"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// LoadConfig reads the servers of a configuration file: .mcp.json and its
// relatives (mcpServers), or VS Code's mcp.json (servers). Variables are expanded;
// one that is not set makes that server unusable, with an error that names file,
// server and field in its Err. A file that cannot be read is an error.
//
// What the file says about trust is not taken over: that is the user's to say.
func LoadConfig(path string) ([]Server, error) {
	file, err := hostconfig.Load(path, nil)
	if err != nil {
		return nil, err
	}
	servers := make([]Server, len(file.Servers))
	for i := range file.Servers {
		servers[i] = configured(&file.Servers[i])
	}
	return servers, nil
}

func configured(c *hostconfig.Server) Server {
	s := Server{
		Name: c.Name, Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir,
		URL: c.URL, Headers: c.Headers, Disabled: c.Disabled, CallTimeout: c.Timeout, Instances: c.Instances, HeldInstances: c.HeldInstances, NoAsk: c.NoAsk,
		Allow: c.Allow, Deny: c.Deny, File: c.File, Hash: c.Hash, EarlierHash: c.EarlierHash, Err: c.Err, reach: c.Reach, inURL: c.InURL,
		MaxMessage: c.MaxMessage, NoInstructions: c.NoInstructions, Warnings: c.Warnings,
	}
	switch c.Type {
	case hostconfig.TypeHTTP:
		s.Transport = TransportHTTP
	case hostconfig.TypeSSE:
		s.Transport = TransportSSE
	}
	a := &c.Authorization
	s.OAuth = OAuth{
		Off: a.Off, Issuer: a.Issuer, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Scopes: a.Scopes,
		Grant: OAuthGrant(a.Grant), KeyID: a.KeyID, Resource: a.Resource, NoResource: a.NoResource,
		MetadataURL: a.MetadataURL, ClientMetadataURL: a.ClientMetadataURL, RedirectURI: a.RedirectURI, AuthMethod: a.AuthMethod,
		IdentityProvider: IdentityProvider(a.IdentityProvider),
	}
	if a.AssertionCommand != "" && s.Err == nil {
		if s.OAuth.Assertion, s.Err = pipe.Assertion(a.AssertionCommand, filepath.Dir(c.File)); s.Err != nil {
			s.Err = fmt.Errorf("%s, server %s: %w", c.File, c.Name, s.Err)
		}
	}
	if a.PrivateKeyFile != "" && s.Err == nil && !s.Disabled {
		if s.OAuth.PrivateKey, s.Err = hostconfig.ReadKey(a.PrivateKeyFile); s.Err != nil {
			s.Err = fmt.Errorf("%s, server %s: oauth.privateKeyFile: %w", c.File, c.Name, s.Err)
		}
	}
	switch {
	case s.Err != nil:
	case c.Sandbox:
		s.Err = fmt.Errorf("%s, server %s: a sandbox is asked for: %w", c.File, c.Name, errors.ErrUnsupported)
	case c.HeadersHelper != "":
		if s.HeadersFunc, s.Err = pipe.HeadersHelper(c.HeadersHelper, filepath.Dir(c.File)); s.Err != nil {
			s.Err = fmt.Errorf("%s, server %s: %w", c.File, c.Name, s.Err)
		}
	}
	return s
}

// SafeIcons returns the icons that a renderer may use: data URLs of at most 256 KiB
// that hold what they say, as PNG, JPEG, GIF, WebP or SVG, and https URLs of the
// server's own origin. ServerURL is that of the server, "" for one that has none.
// Nothing is fetched. Who does must send no credentials, follow no redirect to
// another origin, bound what comes and look at its first bytes; SVG may hold script.
func SafeIcons(of []mcp.Icon, serverURL string) []mcp.Icon { return icons.Safe(of, serverURL) }
