package setup

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// MayLogIn reports whether a server may want a login: it is at a URL, and its definition says
// nothing else about who uses it.
func MayLogIn(s *mcpclient.Server) bool {
	if s.URL == "" || s.OAuth.Off || s.HeadersFunc != nil || s.Err != nil {
		return false
	}
	for name := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	return true
}

// AuthorizerOptions say whose logins are used, and how a login that is missing is had.
type AuthorizerOptions struct {
	// Principal is the one of the gateway whose tokens they are; empty is the user of this machine.
	Principal string
	// Ask asks a person. With nil requests wait at most for Patience, zero is ten minutes, until a
	// person has logged in with another command.
	Ask      auth.AuthorizeFunc
	Patience time.Duration
	// System is where the authorizer lives. Nil makes one that Close ends.
	System *actors.System
}

// OpenAuthorizer returns what authorizes at the servers, with the tokens of the store; nil if
// none of them may want that. Close it.
func OpenAuthorizer(e *env.Env, s store.Store, servers []mcpclient.Server, o AuthorizerOptions) (*auth.Authorizer, error) {
	wanted := false
	for i := range servers {
		wanted = wanted || MayLogIn(&servers[i])
	}
	if !wanted {
		return nil, nil
	}
	log, err := e.Logger()
	if err != nil {
		return nil, err
	}
	keys, err := VaultKeys(e)
	if err != nil {
		return nil, err
	}
	return auth.New(auth.Options{System: o.System, Vault: s, Keys: keys, Profile: profileOf(o.Principal), Logger: log, Authorize: o.Ask, Patience: o.Patience})
}

// profileOf is the profile of a principal: its name may have any characters.
func profileOf(principal string) string {
	if principal == "" {
		return ""
	}
	return fmt.Sprintf("principal-%x", sha256.Sum256([]byte(principal)))
}

// VaultKeys returns the keys of what is sealed in the store.
func VaultKeys(e *env.Env) ([][]byte, error) {
	state, err := env.StateDir()
	if err != nil {
		return nil, env.Usagef("finding the state folder, for the key of the tokens: %w; set %s", err, vault.KeyVariable)
	}
	if e.DryRun && os.Getenv(vault.KeyVariable) == "" {
		if _, err := os.Stat(filepath.Join(state, "key")); errors.Is(err, fs.ErrNotExist) {
			return [][]byte{make([]byte, 32)}, nil // the start makes the file
		}
	}
	keys, err := vault.Keys(os.Getenv(vault.KeyVariable), filepath.Join(state, "key"))
	if err != nil {
		return nil, env.Usagef("the key of the tokens: %w", err)
	}
	return keys, nil
}

// LoginError adds to an error what to do about it, if a login is missing.
func LoginError(server string, err error) error {
	if errors.Is(err, auth.ErrLogin) {
		return env.ExitWith(env.ExitLogin, fmt.Errorf("%w; log in with: troupe mcp login %s", err, server))
	}
	return err
}

// loginCommand is [mcpclient.AskOptions].LoginCommand: the command that logs in with the same store
// and the same configuration.
func loginCommand(e *env.Env, f *ServerFlags) func(server string, scopes []string) (command, where string) {
	return func(server string, scopes []string) (command, where string) {
		words := []string{"troupe", "mcp", "login", server}
		for _, given := range []struct{ flag, value string }{{"--config", e.ConfigPath}, {"--store", e.StorePath}} {
			if given.value != "" {
				words = append(words, given.flag, given.value)
			}
		}
		for _, file := range f.Files {
			words = append(words, "--mcp-config", file)
		}
		if scopes != nil {
			words = append(words, "--scopes", strings.Join(scopes, ","))
		}
		command = shellwords.Join(words)
		if len(f.Commands) > 0 {
			command += ", with the same --mcp"
		}
		if host, err := os.Hostname(); err == nil {
			where = "on " + host
		}
		if dir, err := os.Getwd(); err == nil {
			where = strings.TrimPrefix(where+", in "+dir, ", ")
		}
		return command, where
	}
}
