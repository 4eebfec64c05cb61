package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// maxAnswer bounds what a client reads: [MaxActors] with long paths fit.
const maxAnswer = 32 << 20

// maxSockets bounds the sockets that are tried.
const maxSockets = 1000

// ErrGone is the error of a socket whose process is gone.
var ErrGone = errors.New("no process listens there")

// Client asks one process.
type Client struct {
	pid  int
	http *http.Client
}

// Dial returns a client of the socket. It connects for each request.
func Dial(socket string) *Client {
	pid, _ := pidOf(socket)
	return &Client{pid: pid, http: &http.Client{
		Timeout: 4 * exchange,
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}},
	}}
}

// PID is the process in the name of the socket, zero if there is none.
func (c *Client) PID() int { return c.pid }

// Tree asks for the live actors.
func (c *Client) Tree(ctx context.Context) (*Tree, error) {
	t := new(Tree)
	return t, c.get(ctx, "/tree", t)
}

// Health asks for the identity of the process.
func (c *Client) Health(ctx context.Context) (*Process, error) {
	p := new(Process)
	return p, c.get(ctx, "/health", p)
}

// Servers asks for the servers, without their tools.
func (c *Client) Servers(ctx context.Context) ([]ServerState, error) {
	var all []ServerState
	err := c.get(ctx, "/servers", &all)
	return all, err
}

// ServerNamed asks for a server with its tools.
func (c *Client) ServerNamed(ctx context.Context, name string) (*ServerDetail, error) {
	d := new(ServerDetail)
	return d, c.get(ctx, "/servers/"+url.PathEscape(name), d)
}

// Reconnect has it connect to a server now, unless it is connected.
func (c *Client) Reconnect(ctx context.Context, name string) error {
	_, err := c.do(ctx, http.MethodPost, "/servers/"+url.PathEscape(name)+"/reconnect")
	return err
}

// Models asks for the providers of models.
func (c *Client) Models(ctx context.Context) ([]ProviderState, error) {
	var all []ProviderState
	err := c.get(ctx, "/models", &all)
	return all, err
}

// Status asks for the state of its work; the content depends on the process.
func (c *Client) Status(ctx context.Context) (json.RawMessage, error) {
	var raw json.RawMessage
	return raw, c.get(ctx, "/status", &raw)
}

// Wake makes it check the store.
func (c *Client) Wake(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodPost, "/wake")
	return err
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	if err := jsonx.Unmarshal(body, into); err != nil {
		return fmt.Errorf("process %d: reading its answer: %w", c.pid, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://troupe"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			err = ErrGone
		}
		return nil, fmt.Errorf("process %d: %w", c.pid, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("process %d: reading its answer: %w", c.pid, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("process %d: its answer is longer than %d bytes", c.pid, maxAnswer)
	case resp.StatusCode == http.StatusNotFound && strings.Contains(string(body), ErrNoServer.Error()):
		return nil, fmt.Errorf("process %d: %w", c.pid, ErrNoServer)
	case resp.StatusCode == http.StatusNotFound && strings.HasPrefix(path, "/runs/"):
		return nil, fmt.Errorf("process %d does not work on the run: %w", c.pid, store.ErrNotFound)
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("process %d: %s: %.200s", c.pid, resp.Status, body)
	}
	return body, nil
}

// Find returns clients for the processes that listen in dir, by their ids. Sockets whose
// process is gone are removed. A missing folder has none.
func Find(dir string) ([]*Client, error) {
	if err := checkDir(dir, false); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	var found []*Client
	for _, e := range entries {
		if _, ok := pidOf(e.Name()); !ok || len(found) >= maxSockets {
			continue
		}
		path := filepath.Join(dir, e.Name())
		conn, err := net.DialTimeout("unix", path, time.Second)
		switch {
		case err == nil:
			_ = conn.Close() // it was only a test
			found = append(found, Dial(path))
		case errors.Is(err, syscall.ECONNREFUSED) && gone(path):
			_ = os.Remove(path) // if that fails the next one tries
		}
	}
	slices.SortFunc(found, func(a, b *Client) int { return a.pid - b.pid })
	return found, nil
}

// gone reports whether the process of a socket has died: one that is about to listen
// refuses connections, too.
func gone(path string) bool {
	pid, _ := pidOf(path)
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	err = p.Signal(syscall.Signal(0))
	_ = p.Release()
	return errors.Is(err, os.ErrProcessDone)
}

// WakeAll makes all processes in dir check their store, and returns how many it reached. The
// others check by themselves, later.
func WakeAll(ctx context.Context, dir string) int {
	clients, err := Find(dir)
	if err != nil {
		return 0
	}
	told := 0
	for _, c := range clients {
		one, cancel := context.WithTimeout(ctx, time.Second)
		if c.Wake(one) == nil {
			told++
		}
		cancel()
	}
	return told
}
