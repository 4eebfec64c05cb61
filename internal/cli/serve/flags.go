package serve

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/config"
)

// serveFlags are the flags of "troupe serve".
type serveFlags struct {
	setup.Flags
	stdio       bool
	http        string
	httpGiven   bool // "" too: then the configuration does not count
	console     string
	metrics     string
	protocol    string
	expose      []string
	agents      []string
	names       string
	auth        authFlags
	unanswered  string
	hosts       []string
	origins     []string
	drain       time.Duration
	clients     int
	shareLogins bool
	behindProxy bool
	listWait    time.Duration
	idle        time.Duration // after which a client's servers end
	session     time.Duration // after which its session ends
}

// settle fills in what the configuration says, and refuses what is wrong before anything
// is opened.
func (f *serveFlags) settle(c *config.Serve, noStore bool) error {
	if !f.stdio && !f.httpGiven {
		f.http = c.HTTP
	}
	f.metrics = cmp.Or(f.metrics, c.Metrics.HTTP)
	f.protocol, f.names = cmp.Or(f.protocol, c.Protocol, "both"), cmp.Or(f.names, c.Names, string(expose.NamesQualified))
	if f.unanswered = cmp.Or(f.unanswered, c.Unanswered); noStore {
		if f.unanswered == string(expose.FallbackInbox) {
			return env.Usagef("--unanswered inbox: with --no-store there is no inbox")
		}
		f.unanswered = string(expose.FallbackDecline)
	}
	if err := f.auth.settle(&c.Auth, f.http != ""); err != nil {
		return err
	}
	f.behindProxy = f.behindProxy || c.BehindProxy != nil && *c.BehindProxy
	f.hosts, f.origins = slices.Concat(f.hosts, c.AllowedHosts), slices.Concat(f.origins, c.AllowedOrigins)
	if f.expose == nil {
		f.expose = c.Expose
	}
	if f.expose == nil {
		f.expose = []string{"agents"}
	}
	if f.agents == nil {
		f.agents = c.Agents
	}
	return f.refuse()
}

func (f *serveFlags) refuse() error {
	switch {
	case f.stdio && f.http != "":
		return env.Usagef("--stdio and --http exclude each other")
	case !f.stdio && f.http == "":
		return env.Usagef("say how to serve: --stdio for a client that starts this program, or --http ADDRESS, such as --http :8080")
	case f.protocol != "both" && f.protocol != "legacy" && f.protocol != "modern":
		return env.Usagef("--protocol %q: want both, legacy or modern", f.protocol)
	case f.names != string(expose.NamesQualified) && f.names != string(expose.NamesPlain):
		return env.Usagef("--names %q: want qualified or plain", f.names)
	case f.unanswered != "" && f.unanswered != string(expose.FallbackInbox) && f.unanswered != string(expose.FallbackDecline):
		return env.Usagef("--unanswered %q: want inbox or decline", f.unanswered)
	case f.drain < 0 || f.clients < 0 || f.idle < 0:
		return env.Usagef("--drain-timeout, --max-clients and --idle-servers are not below zero")
	case f.listWait <= 0 || f.session <= 0:
		return env.Usagef("--list-wait and --idle-session are above zero")
	}
	for _, what := range f.expose {
		if what != "agents" && what != "tools" {
			return env.Usagef("--expose %q: want agents, tools or both", what)
		}
	}
	if !slices.Contains(f.expose, "agents") {
		if len(f.agents) > 0 {
			return env.Usagef("--agent without --expose agents")
		}
		f.LeaveModel = true // only servers that sample need one
	}
	return nil
}

// nameList is a flag of names that may be repeated.
type nameList []string

func (l *nameList) String() string { return strings.Join(*l, ",") }

func (l *nameList) Type() string { return "strings" }

// Set implements [pflag.Value].
func (l *nameList) Set(text string) error {
	*l = append(*l, strings.Split(text, ",")...)
	return nil
}
