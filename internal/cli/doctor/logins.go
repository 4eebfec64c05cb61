package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/mcpclient"
)

// checkLogins looks at the key of the tokens, and at the logins at servers.
func checkLogins(ctx context.Context, d *doctor) []check {
	servers, err := setup.ServersOf(d.env, d.f)
	if err != nil {
		return nil // it is said there
	}
	servers = slices.DeleteFunc(servers, func(s mcpclient.Server) bool { return !setup.MayLogIn(&s) })
	if len(servers) == 0 {
		return nil
	}
	key, there := checkKey()
	var logins setup.Logins // without a key there are none
	if there {
		s, err := d.env.OpenStore()
		if err != nil {
			return key // it is said there
		}
		defer s.Close()
		if logins, err = setup.OpenLogins(d.env, s, servers); err != nil {
			return failed("login", err.Error(), "see --log-level debug")
		}
		defer logins.Close()
	}
	each := make([][]check, len(servers))
	setup.AFewAtATime(len(servers), func(i int) { each[i] = d.checkLogin(ctx, logins, &servers[i]) })
	return slices.Concat(key, slices.Concat(each...))
}

// checkKey looks at the key of the tokens, and makes none.
func checkKey() (out []check, there bool) {
	variable, path := os.Getenv(vault.KeyVariable), "$"+vault.KeyVariable
	if variable == "" {
		dir, err := env.StateDir()
		if err != nil {
			return nil, false // it is said there
		}
		path = filepath.Join(dir, "key")
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, false
		}
	}
	if _, err := vault.Keys(variable, path); err != nil {
		return failed("login", "the tokens cannot be opened: "+err.Error(),
			"chmod 600 a file that others may read; with another key, log in anew: troupe mcp login SERVER"), false
	}
	return fine("login", "the key of the tokens is "+path), true
}

// maxAhead is how far clocks may differ: servers allow for less in what the program signs.
const maxAhead = 30 * time.Second

// checkLogin looks at the login at one server.
func (d *doctor) checkLogin(ctx context.Context, logins setup.Logins, def *mcpclient.Server) (out []check) {
	warn := func(text, fix string) {
		out = append(out, check{Area: "login", Name: def.Name, Status: checkWarning, Text: text, Fix: fix})
	}
	if def.OAuth.NoResource {
		warn(`oauth.resource is "none": the authorization server is not told which server its tokens are for, and one that another server steals may be good here`,
			"remove it, if the authorization server knows RFC 8707 by now")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.each, env.ErrTimeout)
	defer cancel()
	login, err := logins.At(ctx, def)
	switch {
	case err != nil:
		warn("the tokens cannot be opened: "+err.Error(), "log in anew: troupe mcp login "+def.Name)
		return out
	case login.Account == nil:
		return out // the check of the server says what is missing
	}
	c := check{Area: "login", Name: def.Name, Status: checkOK, Text: fmt.Sprintf("%s, by %s", login, env.Plain(login.Account.Issuer)), Detail: login}
	if login.State == setup.LoginNeeded {
		c.Status, c.Text, c.Fix = checkWarning, fmt.Sprintf("the login has ended at %s, and is not renewed by itself", login.Until.Local().Format(time.DateTime)), "troupe mcp login "+def.Name
	}
	out = append(out, c)
	ahead, err := logins.ClockAhead(ctx, def, login)
	if err == nil && ahead.Abs() > maxAhead { // whether it can be reached is said with the server
		warn(fmt.Sprintf("the clock of %s and that of this machine differ by %v", env.Plain(login.Account.Issuer), ahead.Abs()),
			"set the clock, or let the system do it (NTP): what proves who the program is, is good for a short time only")
	}
	return out
}
