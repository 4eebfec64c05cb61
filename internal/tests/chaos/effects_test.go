//go:build linux

package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// line is what a server writes of a call, before anything else learns of it.
type line struct {
	At    time.Time `json:"at"`
	Phase string    `json:"phase"` // begun, effect, answered (a form)
	Op    string    `json:"op"`    // which call of which job: "JOB/NAME"
	Tool  string    `json:"tool"`
	Args  string    `json:"args"`
	Key   string    `json:"key"`            // idempotency key
	Via   string    `json:"via"`            // which server
	Word  string    `json:"word,omitempty"` // what the form said
}

// job is whose call it is.
func (l line) job() string { job, _, _ := strings.Cut(l.Op, "/"); return job }

// ledger is the file with the lines; several processes write it.
type ledger struct{ path string }

func (l ledger) put(e line) error {
	e.At = time.Now()
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n'))
	return errors.Join(err, f.Close()) // of what was written a kill takes nothing back
}

func (l ledger) lines() (all []line, err error) {
	f, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		var e line
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, in.Err()
}

// args are those of all tools.
type args struct {
	Op   string `json:"op"`
	Pre  int    `json:"pre,omitempty"`  // milliseconds of work before the effect
	Post int    `json:"post,omitempty"` // and behind it
}

type word struct {
	Word string `json:"word"`
}

// newServer returns a server whose tools have effects: pay at once, asks after a form; look may be called twice.
func newServer(l ledger, via string) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: via, Version: "1"}, nil)
	if err != nil {
		return nil, err
	}
	work := func(ctx context.Context, req *mcpserver.ToolRequest, in args, asks bool) (string, error) {
		e := line{Op: in.Op, Tool: req.Name(), Args: string(req.Arguments()), Via: via}
		if _, err := req.Meta().Get(agent.MetaIdempotencyKey, &e.Key); err != nil {
			return "", err
		}
		write := func(phase string) error { e.Phase = phase; return l.put(e) }
		if err := write("begun"); err != nil {
			return "", err
		}
		if asks {
			said, err := mcpserver.Elicit[word](ctx, req, "word", "Which word for "+in.Op+"?")
			if err != nil {
				return "", err
			}
			e.Word = said.Word
			if err := write("answered"); err != nil {
				return "", err
			}
		}
		time.Sleep(time.Duration(in.Pre) * time.Millisecond)
		if err := write("effect"); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(in.Post) * time.Millisecond)
		return result(in.Op), nil
	}
	return s, errors.Join(
		mcpserver.AddTool(s, &mcp.Tool{Name: "pay"}, func(ctx context.Context, req *mcpserver.ToolRequest, in args) (string, error) {
			return work(ctx, req, in, false)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "asks"}, func(ctx context.Context, req *mcpserver.ToolRequest, in args) (string, error) {
			return work(ctx, req, in, true)
		}),
		mcpserver.AddTool(s, &mcp.Tool{Name: "look", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}}, func(ctx context.Context, req *mcpserver.ToolRequest, in args) (string, error) {
			return work(ctx, req, in, false)
		}),
	)
}

// result is what the model reads of an effect.
func result(op string) string { return "did:" + op + ";" }

// host serves a handler at an address that stays the same while it is away.
type host struct {
	handler http.Handler
	mu      sync.Mutex // guards what follows
	addr    string
	web     *http.Server // nil while it is away
}

func newHost(h http.Handler) (*host, error) {
	s := &host{handler: h, addr: "127.0.0.1:0"}
	return s, s.back()
}

// back has the server listen.
func (s *host) back() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.web != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.addr)
	for end := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(end); l, err = net.Listen("tcp", s.addr) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.web = &http.Server{Handler: s.handler}
	go func(web *http.Server) { _ = web.Serve(l) }(s.web)
	return nil
}

// away has connections refused.
func (s *host) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.web != nil {
		_ = s.web.Close()
		s.web = nil
	}
}
