package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/store"
)

// Role is what a visitor may do.
type Role uint8

// The roles. Each may do what the one before it may.
const (
	Stranger Role = iota // nothing
	Viewer               // look
	Answerer             // answer questions
	Operator             // start, end and change runs and jobs
)

// Options describes a console.
type Options struct {
	// Store has what is shown. It is required.
	Store store.Store
	// Wake is called after each answer, so that runs of this process go on at once; nil waits
	// until they look by themselves, within a second.
	Wake func()
	// Workers returns how the workers stand that can be asked; nil shows them by the leases of their
	// jobs only.
	Workers func(context.Context) []worker.Status
	// Login is how people log in, where there are several: [Users] or [OIDC]. With it login links do not
	// count. Hosts has to name what others than this machine reach the console by.
	Login Login
	// HTTPS says that browsers reach the console by https though it is served without: by a proxy, which
	// is on this machine or in a private network, and adds the address of its client to X-Forwarded-For. Over TLS of its own it is so anyway.
	HTTPS bool
	// Runs is how an [Operator] cancels, parks, resumes and forks runs. Nil permits none of that: the
	// pages say which command does it. [Handler] fills it in.
	Runs RunControl
	// Visitor returns who makes a request, as the journal names who has answered, and the role.
	// Nil admits a browser that has opened a login link: see [Console.LoginPath].
	Visitor func(*http.Request) (name string, role Role)
	// Hosts are the names by which the console is reached, each with the port where that is not
	// the default one. Nil allows the names of this machine's loopback with any port.
	Hosts []string
	// Name is who has answered, where Visitor is nil. Empty means "console".
	Name string
	// Processes finds the processes whose servers, models and actors are shown; a [Process] answers for each.
	// Nil shows none.
	Processes func(context.Context) ([]Process, error)
	// Logger gets what fails. Nil means [slog.Default].
	Logger *slog.Logger
}

// Console is an [http.Handler]. It is safe for use from any goroutine, and has no goroutine of its
// own: there is nothing to close. It is served at the root of a host.
type Console struct {
	opts     Options
	log      *slog.Logger
	sessions *sessions
	spending *spending
	mux      *http.ServeMux
	cross    *http.CrossOriginProtection
	streams  streams
}

// New returns a console.
func New(o *Options) (*Console, error) {
	if o == nil || o.Store == nil {
		return nil, errors.New("opening the console: there is no store: set Options.Store")
	}
	if o.Visitor != nil && len(o.Hosts) == 0 {
		return nil, errors.New("opening the console: with a Visitor it may be reached from other machines: set Options.Hosts to its names")
	}
	c := &Console{opts: *o, log: o.Logger, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(),
		sessions: newSessions(), spending: newSpending()}
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.opts.Name == "" {
		c.opts.Name = "console"
	}
	runs, jobs, processes := runPages{c}, jobPages{c}, processPages{c}
	c.mux.HandleFunc("GET /{$}", c.page(Viewer, c.inbox))
	c.mux.HandleFunc("GET /inbox/{ask}", c.page(Viewer, c.ask))
	c.mux.HandleFunc("POST /inbox/{ask}", c.page(Answerer, c.answer))
	c.mux.HandleFunc("GET /runs", c.page(Viewer, runs.runs))
	c.mux.HandleFunc("GET /runs/{run}", c.page(Viewer, runs.run))
	c.mux.HandleFunc("GET /jobs", c.page(Viewer, jobs.jobs))
	c.mux.HandleFunc("POST /jobs", c.page(Operator, jobs.addJob))
	c.mux.HandleFunc("GET /jobs/{job}", c.page(Viewer, jobs.job))
	c.mux.HandleFunc("POST /jobs/{job}", c.page(Operator, jobs.changeJob))
	c.mux.HandleFunc("GET /schedules", c.page(Viewer, jobs.schedules))
	c.mux.HandleFunc("POST /schedules", c.page(Operator, jobs.changeSchedule))
	c.mux.HandleFunc("GET /workers", c.page(Viewer, jobs.workers))
	c.mux.HandleFunc("GET /servers", c.page(Viewer, processes.servers))
	c.mux.HandleFunc("GET /servers/{pid}/{server}", c.page(Viewer, processes.server))
	c.mux.HandleFunc("POST /servers/{pid}/{server}/reconnect", c.page(Operator, processes.reconnect))
	c.mux.HandleFunc("GET /models", c.page(Viewer, processes.models))
	c.mux.HandleFunc("GET /tree", c.page(Viewer, processes.tree))
	c.mux.HandleFunc("GET /runs/{run}/{operation}", c.page(Operator, runs.operation))
	c.mux.HandleFunc("POST /runs/{run}/{operation}", c.page(Operator, runs.operate))
	c.mux.HandleFunc("GET /runs/{run}/export", c.page(Operator, runs.export))
	c.mux.HandleFunc("GET /runs/{run}/diff", c.page(Viewer, runs.diff))
	c.mux.HandleFunc("GET /runs/{run}/turns/{turn}", c.page(Viewer, runs.request))
	c.mux.HandleFunc("GET /live", c.page(Viewer, c.live))
	c.mux.HandleFunc("GET /assets/{name}", c.asset)
	c.mux.HandleFunc("GET /login", c.loginPage)
	c.mux.HandleFunc("POST /login", c.login)
	if c.opts.Login != nil {
		if c.opts.Visitor != nil {
			return nil, errors.New("opening the console: Options.Login and Options.Visitor exclude each other")
		}
		if err := c.opts.Login.join(c); err != nil {
			return nil, fmt.Errorf("opening the console: %w", err)
		}
		c.mux.HandleFunc("GET /login/callback", c.login)
	}
	c.mux.HandleFunc("POST /logout", c.page(Viewer, c.logout))
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.say(w, r, http.StatusNotFound, noPage) })
	return c, nil
}

// noPage is the text of a page that does not exist.
const noPage = "There is no such page."

// maxForm bounds the body of a POST, in bytes: an answer to a form has at most 1 MiB.
const maxForm = 1 << 20

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webserver.BoundBody(w, r)
	setHeaders(w.Header())
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/healthz": // for any name, and without a login: it tells nothing else
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"status":"ok"}` + "\n")) // the client may have gone
	case !c.knows(r.Host):
		c.say(w, r, http.StatusMisdirectedRequest, "The console is not reached by this name.")
	case c.cross.Check(r) != nil:
		c.say(w, r, http.StatusForbidden, "This form is one of another site. Nothing has changed.")
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		c.mux.ServeHTTP(w, r)
	}
}

// setHeaders makes a page that loads what is ours only, runs no script but ours, and is shown in no
// frame.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// knows reports whether a name of the console is meant.
func (c *Console) knows(host string) bool {
	if c.opts.Hosts != nil {
		return slices.ContainsFunc(c.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// visit is a request of a visitor who may make it.
type visit struct {
	w    http.ResponseWriter
	r    *http.Request
	name string // of the visitor
	role Role
}

// refusals is what a visitor is told who lacks a role.
var refusals = map[Role]string{Answerer: "You may look, and not answer.", Operator: "You may not start, end or change runs and jobs."}

// page serves a page to visitors with a role. An error of f is logged, and the visitor told that
// something failed.
func (c *Console) page(role Role, f func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{w: w, r: r}
		v.name, v.role = c.visitor(r)
		switch {
		case v.role == Stranger && c.opts.Login != nil && r.Method == http.MethodGet && r.URL.Path != "/live":
			w.Header().Set("Location", loginPath(r))
			w.WriteHeader(http.StatusSeeOther)
			return
		case v.role == Stranger && c.opts.Login != nil:
			c.say(w, r, http.StatusUnauthorized, "You are not logged in any more. Load the page again.")
			return
		case v.role == Stranger:
			c.say(w, r, http.StatusUnauthorized, "Open the login link that the program has printed. It counts once.")
			return
		case v.role < role:
			c.say(w, r, http.StatusForbidden, refusals[role])
			return
		}
		err := f(v)
		if err == nil || r.Context().Err() != nil {
			return
		}
		if errors.Is(err, store.ErrNotFound) {
			c.say(w, r, http.StatusNotFound, noPage)
			return
		}
		c.log.Error("a page of the console failed", "page", r.URL.Path, "error", err)
		c.say(w, r, http.StatusInternalServerError, "Something went wrong. Try again; the log of the program says more.")
	}
}

func (c *Console) visitor(r *http.Request) (name string, role Role) {
	if c.opts.Visitor != nil {
		return c.opts.Visitor(r)
	}
	who, ok := c.sessions.of(c.cookie(r), time.Now())
	switch {
	case !ok:
		return "", Stranger
	case c.opts.Login != nil:
		return who.Name, c.opts.Login.role(&who)
	}
	return who.Name, who.Role
}
