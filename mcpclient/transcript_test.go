package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

var update = flag.Bool("update", false, "rewrite the client's part of the transcripts")

// transcript plays the server's part of a conversation. Its sections, in order:
//
//	do       what the client is to do, a command a line
//	client   what the server then reads, a message a line
//	server   what it answers; lines with ! are stage directions:
//	         !exit STATUS, !wait DURATION, !err TEXT to stderr
//	restart  what follows is said to another process
//	outcome  what became of each command
type transcript struct {
	t       *testing.T
	archive *txtar.Archive

	mu   sync.Mutex
	next int // section that no process has begun with
}

// TestTranscripts shows what goes over the wire; the first line of each file names
// the rules it is about.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { (&transcript{t: t, archive: archive}).play() })
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func (x *transcript) play() {
	do, outcome := x.section("do"), x.section("outcome")
	server := Command("fake-server")
	commands := lines(do.Data)
	if pin, ok := strings.CutPrefix(commands[0], "pin "); ok {
		server.Protocol, commands = pin, commands[1:]
	}
	var got []string
	opts := &Options{System: newSystem(x.t), start: x.start}
	opts.OnLog = func(_ string, p mcp.LogParams) { got = append(got, fmt.Sprintf("log %s %s", p.Level, p.Data)) }
	c, err := Dial(x.t.Context(), server, opts)
	if err != nil {
		got = append(got, "connect: "+err.Error())
	} else {
		info, _ := c.Info(x.t.Context())
		got = append(got, fmt.Sprintf("connect: %s %s", info.Era, info.Version))
		for _, command := range commands {
			result := x.command(c, command)
			synctest.Wait()
			got = append(got, command+": "+result)
		}
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Second)
		if err := c.Shutdown(ctx); err != nil {
			x.t.Errorf("Close: %v", err)
		}
		cancel()
	}
	if *update {
		outcome.Data = []byte(strings.Join(got, "\n") + "\n")
	} else if want := lines(outcome.Data); !slices.Equal(got, want) {
		x.t.Errorf("outcome: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next < len(x.archive.Files) {
		x.t.Error("the client did not start every process of the transcript")
	}
}

// command does what one line says and returns what came of it.
func (x *transcript) command(c *Client, command string) string {
	ctx := x.t.Context()
	verb, rest, _ := strings.Cut(command, " ")
	switch verb {
	case "connect":
		return "ok"
	case "ping":
		return outcomeOf("ok", c.Ping(ctx))
	case "wait":
		d, err := time.ParseDuration(rest)
		time.Sleep(d)
		return outcomeOf("ok", err)
	case "list":
		tools, err := c.ListTools(ctx)
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		return outcomeOf(strings.Join(names, " "), err)
	case "level":
		return outcomeOf("ok", c.SetLogLevel(ctx, mcp.LogLevel(rest)))
	case "request":
		method, params, _ := strings.Cut(rest, " ")
		raw, err := c.Request(ctx, method, json.RawMessage(params), nil)
		return outcomeOf(string(raw), err)
	case "call", "watch", "brief":
		name, args, _ := strings.Cut(rest, " ")
		opts := &CallOptions{}
		var seen []string
		if verb == "watch" {
			opts.Progress = func(p Progress) { seen = append(seen, fmt.Sprintf("[%v %s]", p.Progress, p.Message)) }
		}
		if verb == "brief" {
			opts.Idle = time.Second
		}
		res, err := c.CallTool(ctx, name, json.RawMessage(args), opts)
		if err != nil {
			return err.Error()
		}
		raw, err := mcp.Marshal(res)
		return strings.Join(append(seen, outcomeOf(string(raw), err)), " ")
	}
	return "unknown command"
}

func outcomeOf(ok string, err error) string {
	if err != nil {
		return err.Error()
	}
	return ok
}

func (x *transcript) section(name string) *txtar.File {
	for i := range x.archive.Files {
		if x.archive.Files[i].Name == name {
			return &x.archive.Files[i]
		}
	}
	x.t.Fatalf("there is no section %q", name)
	return nil
}

func lines(data []byte) []string { return strings.Split(strings.TrimSpace(string(data)), "\n") }

// start is the starter of the fake process: each plays the sections up to restart.
func (x *transcript) start(*Server) (pipe.Process, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next >= len(x.archive.Files) {
		return nil, errors.New("the transcript has no more processes")
	}
	from := x.next
	for x.next < len(x.archive.Files) && x.archive.Files[x.next].Name != "restart" {
		x.next++
	}
	part := x.archive.Files[from:x.next]
	x.next++
	return start(func(p *fakeProcess) string { return x.serve(p, part) }), nil
}

// serve plays the sections of one process.
func (x *transcript) serve(p *fakeProcess, part []txtar.File) string {
	for i := range part {
		switch f := &part[i]; f.Name {
		case "client":
			if !x.hear(p, f) {
				return "exit status 0"
			}
		case "server":
			for _, line := range lines(f.Data) {
				if status, exit := x.perform(p, line); exit {
					return status
				}
			}
		}
	}
	return x.silence(p)
}

// silence is the end of a part: whatever the client still says is too much.
func (x *transcript) silence(p *fakeProcess) string {
	for {
		line, ok := p.read()
		if !ok {
			return "exit status 0"
		}
		x.t.Errorf("the client also said %s", line)
	}
}

// hear reads what the client is expected to say.
func (x *transcript) hear(p *fakeProcess, f *txtar.File) bool {
	var heard []string
	for _, want := range lines(f.Data) {
		got, ok := p.read()
		if !ok {
			x.t.Errorf("the client hung up instead of saying %s", want)
			return false
		}
		heard = append(heard, got)
		if !*update && !sameJSON(got, want) {
			x.t.Errorf("the client said\n%s\nwant\n%s", got, want)
		}
	}
	if *update {
		f.Data = []byte(strings.Join(heard, "\n") + "\n")
	}
	return true
}

func sameJSON(a, b string) bool {
	ca, errA := jsonx.Canonical([]byte(a))
	cb, errB := jsonx.Canonical([]byte(b))
	return errA == nil && errB == nil && string(ca) == string(cb)
}

// perform does one line of the server's part.
func (x *transcript) perform(p *fakeProcess, line string) (status string, exit bool) {
	direction, rest, _ := strings.Cut(line, " ")
	switch direction {
	case "!exit":
		return rest, true
	case "!wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			x.t.Error(err)
		}
		time.Sleep(d)
	case "!err":
		_, _ = p.errW.Write([]byte(rest + "\n"))
	default:
		p.say(line)
	}
	return "", false
}
