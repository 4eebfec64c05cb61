package mcpclient

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// mailbox is a sink that keeps what it gets.
type mailbox struct {
	mu      sync.Mutex
	frames  []string
	skipped []string // the beginnings
	lost    []error
}

const maxMessage = 1 << 20 // of the servers here

func (m *mailbox) Skipped(head, _ []byte, _ func(bool) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped = append(m.skipped, string(head))
}

func (m *mailbox) Frame(frame []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frames = append(m.frames, string(frame))
}

func (m *mailbox) Lost(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = append(m.lost, err)
}

func (m *mailbox) all() ([]string, []error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.frames), slices.Clone(m.lost)
}

// STDIO-20: stdin closed, then asked, then made to end; each step has its time.
func TestShutdownLadder(t *testing.T) {
	tests := []struct {
		name     string
		program  func(*fakeProcess) string
		stubborn bool
		killed   []string
		took     time.Duration
	}{
		{"ends at once", (*fakeProcess).untilEOF, false, nil, 0},
		{"ends late", func(p *fakeProcess) string { s := p.untilEOF(); time.Sleep(time.Second); return s }, false, nil, time.Second},
		{"ends when asked", func(p *fakeProcess) string { <-p.over; return "" }, false, []string{"terminate"}, 4 * time.Second},
		{"ends when killed", func(p *fakeProcess) string { <-p.over; return "" }, true, []string{"terminate", "kill"}, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := newSystem(t)
				p := start(tt.program)
				p.stubborn = tt.stubborn
				sink := new(mailbox)
				l := pipe.NewStdio(p, pipeOptions(sys, sink))
				begin := time.Now()
				l.Close()
				l.Close()
				if took := time.Since(begin); took > tt.took || tt.took > 0 && took < tt.took-2*time.Second {
					t.Errorf("Close took %v, want about %v", took, tt.took)
				}
				if !slices.Equal(p.killed, tt.killed) {
					t.Errorf("signals: got %v, want %v", p.killed, tt.killed)
				}
				if _, lost := sink.all(); len(lost) != 1 || lost[0] != nil {
					t.Errorf("Lost: got %v, want nil once", lost)
				}
				if err := l.Send(mcp.Outgoing{Frame: []byte("{}")}); err == nil {
					t.Error("Send after Close: got no error")
				}
			})
		})
	}
}

// How a server ends is told once, with the last it wrote to stderr.
func TestHowAServerEnds(t *testing.T) {
	tests := []struct {
		name    string
		holds   bool
		program func(*fakeProcess) string
		want    []string
	}{
		{"exit", false, func(p *fakeProcess) string {
			_, _ = p.errW.Write([]byte("Error: no such folder\x1b[0m\n"))
			return "exit status 3"
		}, []string{"exit status 3", "Error: no such folder"}},
		{"closes stdout", false, func(p *fakeProcess) string { p.outW.Close(); p.untilEOF(); return "" }, []string{"closed its output"}},
		{"something holds the pipes", true, func(*fakeProcess) string { return "exit status 4" }, []string{"exit status 4"}},
		{"a flood of junk", false, func(p *fakeProcess) string {
			for range 2 * 1000 {
				p.say("log line")
			}
			return p.untilEOF()
		}, []string{"1000 lines in a row", "log line"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := newSystem(t)
				sink := new(mailbox)
				gate := make(chan struct{})
				p := start(func(p *fakeProcess) string { <-gate; return tt.program(p) })
				p.holds = tt.holds
				l := pipe.NewStdio(p, pipeOptions(sys, sink))
				close(gate)
				time.Sleep(time.Minute)
				_, lost := sink.all()
				if len(lost) != 1 || lost[0] == nil {
					t.Fatalf("Lost: got %v, want one error", lost)
				}
				for _, want := range tt.want {
					if !strings.Contains(lost[0].Error(), want) {
						t.Errorf("Lost: got %v, want it to say %q", lost[0], want)
					}
				}
				if strings.Contains(lost[0].Error(), "\x1b") {
					t.Errorf("Lost: %q has control characters", lost[0])
				}
				l.Close()
				if _, lost := sink.all(); len(lost) != 1 {
					t.Errorf("Lost was called %d times", len(lost))
				}
			})
		})
	}
}

// A server that does not read makes nobody wait, and is an error when the queue is full.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		p := start(func(p *fakeProcess) string { <-p.over; return "" })
		l := pipe.NewStdio(p, pipeOptions(sys, new(mailbox)))
		message := mcp.Outgoing{Frame: []byte(strings.Repeat("x", 1<<20))}
		var err error
		for range 100 {
			if err = l.Send(message); err != nil {
				break
			}
		}
		if !errors.Is(err, call.ErrBusy) {
			t.Errorf("Send: got %v, want %v", err, call.ErrBusy)
		}
		begin := time.Now()
		l.Close()
		if took := time.Since(begin); took > 7*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

// pipeOptions are those of a link whose client is only its name.
func pipeOptions(sys *actors.System, sink mcp.Sink) pipe.Options {
	c := &Client{sys: sys, log: sys.Log(), server: &Server{Name: "x", MaxMessage: maxMessage}}
	return (dialing{c}).pipeOptions(sink)
}

func TestCommandName(t *testing.T) {
	tests := []struct{ line, want string }{
		{"npx -y @modelcontextprotocol/server-filesystem .", "filesystem"},
		{"npx @modelcontextprotocol/server-everything@2025.1.1", "everything"},
		{"uvx mcp-server-git --repository x", "git"},
		{"/opt/bin/notes-mcp", "notes"},
		{"./files.exe", "files"},
		{"node build/weather.js", "weather"},
		{"node x/node_modules/@modelcontextprotocol/server-memory/dist/index.js", "memory"},
		{"node dist/index.js", "index"},
		{"node main.js", "main"},
		{"docker run -i --rm ghcr.io/github/github-mcp-server", "github"},
		{"python3 -m time_server", "time_server"},
		{"server", "server"},
		{"npx", "npx"},
		{"mcp", "mcp"},
	}
	for _, tt := range tests {
		parts := strings.Fields(tt.line)
		if got := Command(parts[0], parts[1:]...).Name; got != tt.want {
			t.Errorf("Command(%q): got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	s := Command("sh", "-c", "echo 'a' $HOME", "", "plain")
	if got, want := s.CommandLine(), `sh -c 'echo '\''a'\'' $HOME' '' plain`; got != want {
		t.Errorf("CommandLine: got %s, want %s", got, want)
	}
}
