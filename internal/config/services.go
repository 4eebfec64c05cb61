package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/age"
	"github.com/troupe-dev/troupe/internal/hostconfig"
)

// services are the sections of what runs on its own. An author of a project must
// not open ports, choose where data goes, or start work there.
func (d *decoder) services(c *Config, foreign bool) fields {
	return fields{
		"mcp":       func(n *yaml.Node) { d.mcp(n, &c.MCP, foreign) },
		"store":     d.own(foreign, "store", func(n *yaml.Node) { d.store(n, &c.Store) }),
		"serve":     d.own(foreign, "serve", func(n *yaml.Node) { d.serve(n, &c.Serve) }),
		"worker":    d.own(foreign, "worker", func(n *yaml.Node) { d.worker(n, &c.Worker) }),
		"telemetry": d.own(foreign, "telemetry", func(n *yaml.Node) { d.telemetry(n, &c.Telemetry) }),
	}
}

func (d *decoder) mcp(n *yaml.Node, m *MCP, foreign bool) {
	d.object(n, fields{
		"files": func(n *yaml.Node) {
			d.texts(&m.Files)(n)
			for i, file := range m.Files {
				if foreign && !filepath.IsLocal(file) {
					d.fail(n, "%.80q is outside of the project: that counts only if you name this file (--config %s)", file, FileName)
				}
				m.Files[i] = d.beside(file)
			}
		},
		"instances": d.own(foreign, "mcp.instances", func(n *yaml.Node) {
			if d.count(&m.Instances)(n); m.Instances < 1 || m.Instances > hostconfig.MaxInstances {
				d.fail(n, "want a whole number from 1 to %d, got %.40q", hostconfig.MaxInstances, n.Value)
			}
		}),
		"held_instances": d.own(foreign, "mcp.held_instances", func(n *yaml.Node) {
			d.count(&m.HeldInstances)(n)
			switch {
			case m.HeldInstances < 0 || m.HeldInstances > hostconfig.MaxInstances:
				d.fail(n, "want a whole number from 0 to %d, got %.40q", hostconfig.MaxInstances, n.Value)
			case m.HeldInstances == 0:
				m.HeldInstances = -1 // zero is the default
			}
		}),
		"polls": d.own(foreign, "mcp.polls", func(n *yaml.Node) {
			d.texts(&m.Polls)(n)
			d.patterns(n, m.Polls)
		}),
		"protocol": func(n *yaml.Node) {
			if d.text(&m.Protocol)(n); !isProtocol(m.Protocol) {
				d.fail(n, "want auto, legacy, modern or the date of a revision, got %.40q", m.Protocol)
			}
		},
	})
}

func isProtocol(s string) bool {
	if slices.Contains([]string{"", "auto", "legacy", "modern"}, s) {
		return true
	}
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func (d *decoder) store(n *yaml.Node, s *Store) {
	d.object(n, fields{
		"path": d.text(&s.Path), "keep": d.age(&s.Keep), "keep_runs": d.count(&s.KeepRuns),
		"rules": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				d.fail(n, "want a list of rules, [{ agent: NAME, state: failed, keep: 30d }], got %s", kind(n))
				return
			}
			if len(n.Content) > maxKeepRules {
				d.fail(n, "more than %d rules", maxKeepRules)
				return
			}
			for _, rule := range n.Content {
				s.Rules = append(s.Rules, d.keepRule(rule))
			}
		},
	})
}

// maxKeepRules is what a [worker.Options] takes.
const maxKeepRules = 100

// keepRule reads a rule of what is kept for how long.
func (d *decoder) keepRule(n *yaml.Node) (r KeepRule) {
	d.object(n, fields{
		"agent": d.text(&r.Agent),
		"state": d.someOf(&r.States, "finished", "done", "failed", "cancelled", "limited", "unknown"),
		"keep": func(n *yaml.Node) {
			if r.Keep = -1; n.Value == "forever" || !d.scalar(n, "a time such as 90d, or forever") {
				return
			}
			v, err := age.Parse(n.Value)
			if r.Keep = v; err != nil {
				r.Keep = -1 // said once
				d.fail(n, "want a time such as 90d, 36h or 10m, or forever, got %.40q", n.Value)
			}
		},
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case r.Keep == 0:
		d.fail(n, "a rule says how long: keep: 30d, or keep: forever")
	case r.Agent == "" && len(r.States) == 0:
		d.fail(n, "a rule says for what: agent: NAME, or state: failed, or both; for all others there is store.keep")
	}
	return r
}

func (d *decoder) serve(n *yaml.Node, s *Serve) {
	d.object(n, fields{
		"http":     d.text(&s.HTTP),
		"protocol": d.oneOf(&s.Protocol, "both", "legacy", "modern"),
		"expose":   d.someOf(&s.Expose, "agents", "tools"),
		"agents":   d.texts(&s.Agents), "servers": d.texts(&s.Servers),
		"names":         d.oneOf(&s.Names, "qualified", "plain"),
		"unanswered":    d.oneOf(&s.Unanswered, "inbox", "decline"),
		"share_logins":  d.flag(&s.ShareLogins),
		"behind_proxy":  d.flag(&s.BehindProxy),
		"allowed_hosts": d.texts(&s.AllowedHosts), "allowed_origins": d.texts(&s.AllowedOrigins),
		"metrics": func(n *yaml.Node) {
			d.object(n, fields{"http": d.text(&s.Metrics.HTTP), "token": d.secret(&s.Metrics.Token)})
		},
		"auth": func(n *yaml.Node) { d.auth(n, &s.Auth) },
	})
}

func (d *decoder) auth(n *yaml.Node, a *Auth) {
	d.object(n, fields{
		"type":     d.oneOf(&a.Type, "none", "bearer", "oauth"),
		"token":    d.secret(&a.Token),
		"issuer":   d.text(&a.Issuer),
		"resource": d.text(&a.Resource),
		"max_life": d.duration(&a.MaxLife), "client_subjects": d.flag(&a.ClientSubjects), "retry_public": d.flag(&a.RetryPublic),
		"users": func(n *yaml.Node) {
			if d.text(&a.Users)(n); a.Users != "" {
				a.Users = d.beside(a.Users)
			}
		},
		"scopes": d.texts(&a.Scopes),
		"tools": func(n *yaml.Node) {
			a.Tools = make(map[string][]string)
			d.entries(n, func(key, value *yaml.Node) {
				var scopes []string
				if d.texts(&scopes)(value); len(scopes) == 0 {
					d.fail(value, "want the scopes that %.40q needs, such as [files:write]", key.Value)
				}
				a.Tools[key.Value] = scopes
			})
		},
		"introspect": func(n *yaml.Node) {
			d.object(n, fields{"client_id": d.text(&a.ClientID), "client_secret": d.secret(&a.ClientSecret)})
			if a.ClientID == "" {
				d.fail(n, "the issuer is asked as a client that it knows: client_id is missing")
			}
		},
		"login": func(n *yaml.Node) {
			d.object(n, fields{"issuer": d.text(&a.Login.Issuer), "client_id": d.text(&a.Login.ClientID), "client_secret": d.secret(&a.Login.ClientSecret)})
			if a.Login.Issuer == "" || a.Login.ClientID == "" {
				d.fail(n, "want issuer, the OpenID provider at which people log in, and client_id, the id of this server there")
			}
		},
	})
	embedded := a.Users != "" || a.Login != Login{}
	switch oauth := a.Type == "oauth"; {
	case n.Kind != yaml.MappingNode:
	case a.Type == "bearer" && a.Token.IsZero():
		d.fail(n, "the token is missing: token: ${TROUPE_TOKEN}")
	case oauth && !embedded && (a.Issuer == "" || a.Resource == ""):
		d.fail(n, "type oauth needs issuer, who issues the tokens, or users, a file, or login; and resource, the address of this server that the tokens are for, such as https://mcp.example.com/mcp")
	case oauth && embedded && (a.Issuer != "" || a.ClientID != ""):
		d.fail(n, "users and login exclude issuer and introspect: the server issues the tokens itself")
	case oauth && a.Users != "" && a.Login != Login{}:
		d.fail(n, "users and login exclude each other: people log in by the file, or at the provider")
	case oauth && !a.Token.IsZero():
		d.fail(n, "token is for type bearer: with type oauth the issuer gives out the tokens")
	case !oauth && (a.Issuer != "" || embedded || a.Resource != "" || a.Scopes != nil || a.Tools != nil || a.ClientID != ""):
		d.fail(n, "issuer, users, login, resource, scopes, tools and introspect are for type: oauth")
	}
}

func (d *decoder) worker(n *yaml.Node, w *Worker) {
	d.object(n, fields{
		"concurrency": d.count(&w.Concurrency), "max_parked": d.count(&w.MaxParked), "attempts": d.count(&w.Attempts),
		"park_after": d.duration(&w.ParkAfter), "give_up": d.duration(&w.GiveUp),
		"on_unknown": d.oneOf(&w.OnUnknown, "ask", "tell", "again", "end"),
		"lease":      d.duration(&w.Lease), "drain": d.duration(&w.Drain),
		"http": d.text(&w.HTTP), "behind_proxy": d.flag(&w.BehindProxy), "token": d.secret(&w.Token), "hook_secret": d.secret(&w.HookSecret),
		"hook_hosts": d.texts(&w.HookHosts),
		"notify": func(n *yaml.Node) {
			var details *bool
			d.object(n, fields{"url": d.text(&w.Notify.URL), "command": d.texts(&w.Notify.Command), "details": d.flag(&details)})
			if w.Notify.Details = details != nil && *details; n.Kind == yaml.MappingNode && w.Notify.IsZero() {
				d.fail(n, "notify needs a url, or a command with its arguments: [notify-send, A question waits]")
			}
		},
		"schedules": func(n *yaml.Node) {
			w.Schedules = make(map[string]Schedule)
			d.entries(n, func(key, value *yaml.Node) {
				if !agentName.fits(key.Value) {
					d.fail(key, "the name of a schedule has 1 to 64 letters, digits, dashes and underscores")
				}
				w.Schedules[key.Value] = d.schedule(key, value)
			})
		},
	})
}

func (d *decoder) schedule(key, n *yaml.Node) Schedule {
	s := Schedule{Source: d.at(key)}
	d.object(n, fields{
		"cron": d.text(&s.Cron), "agent": d.text(&s.Agent), "prompt": d.lines(&s.Prompt),
		"timezone": func(n *yaml.Node) {
			d.text(&s.Timezone)(n)
			if _, err := time.LoadLocation(s.Timezone); err != nil {
				d.fail(n, "there is no time zone %.40q: want a name such as Europe/Berlin", s.Timezone)
			}
		},
	})
	if n.Kind == yaml.MappingNode && (s.Cron == "" || s.Prompt == "") {
		d.fail(n, `a schedule has a cron expression and a prompt: { cron: "0 8 * * *", prompt: ... }`)
	}
	return s
}

func (d *decoder) telemetry(n *yaml.Node, t *Telemetry) {
	var content *bool
	d.object(n, fields{"endpoint": d.text(&t.Endpoint), "content": d.flag(&content)})
	t.Content = content != nil && *content
}

// late are the values whose variables are put in when they are needed, by their keys.
func (c *Config) late() (texts map[string]*string, secrets map[string]*Key) {
	return map[string]*string{
			"store.path": &c.Store.Path, "serve.http": &c.Serve.HTTP, "serve.metrics.http": &c.Serve.Metrics.HTTP, "serve.auth.issuer": &c.Serve.Auth.Issuer,
			"serve.auth.resource": &c.Serve.Auth.Resource, "serve.auth.introspect.client_id": &c.Serve.Auth.ClientID, "worker.http": &c.Worker.HTTP, "worker.notify.url": &c.Worker.Notify.URL, "telemetry.endpoint": &c.Telemetry.Endpoint,
		}, map[string]*Key{
			"serve.auth.token": &c.Serve.Auth.Token, "serve.metrics.token": &c.Serve.Metrics.Token, "serve.auth.introspect.client_secret": &c.Serve.Auth.ClientSecret, "worker.token": &c.Worker.Token, "worker.hook_secret": &c.Worker.HookSecret,
		}
}

// Resolve puts the variables into a section, such as "serve", and looks for the agents
// that it names: what a command does not use it need not have. Once that is done, later
// calls for the section do nothing; where it fails, nothing is changed.
func (c *Config) Resolve(section string, getenv func(string) string) error {
	if c.resolved[section] {
		return nil
	}
	texts, secrets := c.late()
	values, problems := make(map[string]string), make(map[string]error)
	put := func(key, text string) {
		if !strings.HasPrefix(key, section+".") {
			return
		}
		if value, err := expand(text, getenv); err != nil {
			problems[key] = err
		} else {
			values[key] = value
		}
	}
	for key, text := range texts {
		put(key, *text)
	}
	for key, secret := range secrets {
		put(key, secret.Reveal())
	}
	if e := (&Error{c.strangers(section)}); len(problems)+len(e.Problems) > 0 {
		for _, key := range slices.Sorted(maps.Keys(problems)) {
			e.Problems = append(e.Problems, c.problemAt(key, "%s: %v", key, problems[key]))
		}
		return e
	}
	for key, value := range values {
		if text := texts[key]; text != nil {
			*text = value
		} else {
			*secrets[key] = NewKey(strings.TrimSpace(value))
		}
	}
	if section == "store" && c.Store.Path != "" {
		c.Store.Path = besideFile(c.values["store.path"].File, c.Store.Path)
	}
	if c.resolved == nil {
		c.resolved = make(map[string]bool)
	}
	c.resolved[section] = true
	return nil
}

// strangers are the agents that a section names and that are not there.
func (c *Config) strangers(section string) (problems []Problem) {
	look := func(key, name string) {
		if _, ok := c.Agents[name]; !ok && name != "" && name != MainAgent && len(problems) < maxProblems {
			problems = append(problems, c.problemAt(key, "%s: %s", key, c.noAgent(name)))
		}
	}
	switch section {
	case "serve":
		for _, name := range c.Serve.Agents {
			look("serve.agents", name)
		}
	case "worker":
		for _, name := range slices.Sorted(maps.Keys(c.Worker.Schedules)) {
			look("worker.schedules."+name+".agent", c.Worker.Schedules[name].Agent)
		}
	}
	return problems
}
