package mcpserver_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

var update = flag.Bool("update", false, "rewrite the server's part of the transcripts")

// transcript plays the client's part of a conversation with a server. Its sections, in
// order:
//
//	serve       the parts that the server has, see parts
//	client      what the client writes to the pipe, a message a line
//	request     what it sends over HTTP: method and path, headers, an empty line, the body
//	do          stage directions: wait DURATION, updated URI, add PART, hang up N for the
//	            response of request N
//	server      what the server then writes to the pipe
//	response N  what it answers to request N: status, headers, an empty line, the body
//	stream N    more of the response of request N
//
// "go test -update" writes the last three. Names such as $task1 stand for random values;
// the client's part may use them.
type transcript struct {
	t      *testing.T
	server *mcpserver.Server
	client *http.Client

	in    io.WriteCloser // the pipe; nil before its first message
	out   written
	posts []*exchange
	names map[string]string // of random values
	count map[string]int    // how many values have a kind of name
}

// TestTranscripts shows what goes over the wire; the first line of each file names the
// rules it is about.
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
			played := &txtar.Archive{Comment: archive.Comment}
			synctest.Test(t, func(t *testing.T) {
				x := &transcript{t: t, names: map[string]string{}, count: map[string]int{}}
				for _, f := range archive.Files {
					x.play(played, f)
				}
				x.end(played)
			})
			if *update {
				if err := os.WriteFile(file, txtar.Format(played), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			checkTranscript(t, txtar.Format(played), txtar.Format(archive))
		})
	}
}

// checkTranscript compares line by line; lines of JSON may differ in the order of their
// members.
func checkTranscript(t *testing.T, got, want []byte) {
	t.Helper()
	gots, wants := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gots), len(wants)) {
		if i >= len(gots) || i >= len(wants) || !sameLine(gots[i], wants[i]) {
			t.Errorf("line %d: got\n%s\nwant\n%s", i+1, strings.Join(gots[min(i, len(gots)):], "\n"), strings.Join(wants[min(i, len(wants)):], "\n"))
			return
		}
	}
}

func sameLine(a, b string) bool {
	if a == b {
		return true
	}
	ca, errA := jsonx.Canonical([]byte(strings.TrimPrefix(a, "data: ")))
	cb, errB := jsonx.Canonical([]byte(strings.TrimPrefix(b, "data: ")))
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

// play does what a section of the client's says, and adds it and what the server then
// writes to the archive. Sections of the server's are left out: they come anew.
func (x *transcript) play(played *txtar.Archive, f txtar.File) {
	text := x.known(string(f.Data))
	switch f.Name {
	case "serve":
		x.serve(strings.Fields(text))
	case "client":
		x.write(text)
	case "request":
		x.send(text)
	case "do":
		for line := range strings.Lines(text) {
			x.do(strings.TrimSpace(line))
		}
	default:
		return
	}
	played.Files = append(played.Files, f)
	x.collect(played)
}

// serve starts a server with parts.
func (x *transcript) serve(names []string) {
	sys, err := actors.NewSystem(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	opts := &mcpserver.Options{System: sys, Tasks: &mcpserver.TaskOptions{}}
	if !slices.Contains(names, "slow") {
		opts.Tasks = nil
	}
	if x.server, err = mcpserver.New(mcp.Implementation{Name: "transcript", Version: "1"}, opts); err != nil {
		x.t.Fatal(err)
	}
	for _, name := range names {
		x.add(name)
	}
	x.t.Cleanup(func() {
		if err := x.server.Close(); err != nil {
			x.t.Errorf("Close: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			x.t.Errorf("Shutdown: %v", err)
		}
		time.Sleep(50 * time.Millisecond) // what it left asleep ends
	})
	x.client = memhttp.Serve(x.t, x.server.Handler())
}

func (x *transcript) add(name string) {
	part := parts[name]
	if part == nil {
		x.t.Fatalf("unknown part %q", name)
	}
	if err := part(x.server); err != nil {
		x.t.Fatal(err)
	}
}

// write sends lines to the pipe, which the first of them opens.
func (x *transcript) write(text string) {
	if x.in == nil {
		r, w := io.Pipe()
		x.in = w
		ended := make(chan error, 1)
		go func() { ended <- x.server.Serve(context.WithoutCancel(x.t.Context()), r, &x.out) }()
		x.t.Cleanup(func() {
			w.Close()
			if err := <-ended; err != nil {
				x.t.Errorf("Serve: %v", err)
			}
		})
	}
	if _, err := io.WriteString(x.in, text); err != nil {
		x.t.Fatal(err)
	}
}

// exchange is one HTTP request and what came of it so far.
type exchange struct {
	written
	cancel context.CancelFunc
}

// send makes an HTTP request, and does not wait for its end.
func (x *transcript) send(text string) {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	ctx, cancel := context.WithCancel(x.t.Context())
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(strings.TrimSpace(body)))
	if err != nil {
		x.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	post := &exchange{cancel: cancel}
	x.posts = append(x.posts, post)
	x.t.Cleanup(cancel)
	go func() {
		res, err := x.client.Do(req)
		if err != nil {
			return // hung up
		}
		defer res.Body.Close()
		post.begin(res)
		_, _ = io.Copy(post, res.Body)
	}()
}

// shown are the headers that transcripts have.
var shown = []string{"Content-Type", "Mcp-Session-Id", "Allow", "Www-Authenticate"}

func (e *exchange) begin(res *http.Response) {
	head := res.Status + "\n"
	for _, name := range shown {
		if value := res.Header.Get(name); value != "" {
			head += name + ": " + value + "\n"
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.head = head
}

// do follows a stage direction.
func (x *transcript) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			x.t.Fatal(err)
		}
		time.Sleep(d)
	case "updated":
		x.server.ResourceUpdated(rest)
	case "add":
		x.add(rest)
	case "hang":
		var n int
		if _, err := fmt.Sscanf(rest, "up %d", &n); err != nil || n < 1 || n > len(x.posts) {
			x.t.Fatalf("there is no response to hang up on: %q", line)
		}
		x.posts[n-1].cancel()
	default:
		x.t.Fatalf("unknown stage direction %q", line)
	}
}

// collect adds what the server has written since.
func (x *transcript) collect(played *txtar.Archive) {
	synctest.Wait()
	add := func(name, text string) {
		if text = x.named(text); text != "" {
			played.Files = append(played.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	_, text := x.out.take()
	add("server", taskNoticesLast(answersByID(text)))
	for i, post := range x.posts {
		switch head, text := post.take(); {
		case head != "" && text != "":
			add(fmt.Sprintf("response %d", i+1), head+"\n"+wholeLines(text))
		case head != "":
			add(fmt.Sprintf("response %d", i+1), head)
		default:
			add(fmt.Sprintf("stream %d", i+1), wholeLines(text))
		}
	}
}

// taskNoticesLast moves the status notices of tasks behind the other lines: each task tells of
// itself, and the order among its notices and the answers of others is not fixed.
func taskNoticesLast(text string) string {
	var others, notices []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"method":"notifications/tasks/status"`) {
			notices = append(notices, line)
		} else {
			others = append(others, line)
		}
	}
	return strings.Join(append(others, notices...), "")
}

var answerID = regexp.MustCompile(`^\{"jsonrpc":"2\.0","id":(\d+),"(?:result|error)"`)

// answersByID puts the answers of a pipe that came at one moment in the order of their requests: their
// calls end at the same time, each on its own, so that their order is not fixed.
func answersByID(text string) string {
	var lines []string
	var places []int // of the answers
	for line := range strings.Lines(text) {
		if answerID.MatchString(line) {
			places = append(places, len(lines))
		}
		lines = append(lines, line)
	}
	answers := make([]string, len(places))
	for i, place := range places {
		answers[i] = lines[place]
	}
	id := func(line string) int { n, _ := strconv.Atoi(answerID.FindStringSubmatch(line)[1]); return n }
	slices.SortStableFunc(answers, func(a, b string) int { return cmp.Compare(id(a), id(b)) })
	for i, place := range places {
		lines[place] = answers[i]
	}
	return strings.Join(lines, "")
}

// wholeLines ends a text with a line feed; a body of JSON has none.
func wholeLines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// end closes the pipe, and adds what the server writes then.
func (x *transcript) end(played *txtar.Archive) {
	if x.in != nil {
		x.in.Close()
		x.collect(played)
	}
}

// written collects what the server writes.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
	head string // of a response: status and headers
}

func (o *written) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// Close implements [io.Closer]: the server closes its end of the pipe.
func (o *written) Close() error { return nil }

// take returns what came since the last time.
func (o *written) take() (head, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	head, text = o.head, o.text.String()
	o.head = ""
	o.text.Reset()
	return head, text
}

// random finds the values that differ from run to run, by the name they get.
var random = map[string]*regexp.Regexp{
	"session": regexp.MustCompile(`(?m)^Mcp-Session-Id: (\S+)$`),
	"event":   regexp.MustCompile(`(?m)^id: (\S+)$`),
	"task":    regexp.MustCompile(`"taskId":"([^"]+)"`),
	"state":   regexp.MustCompile(`"requestState":"([^"]+)"`),
	"page":    regexp.MustCompile(`"elicitationId":"([^"]+)"`),
}

// named replaces random values by names.
func (x *transcript) named(text string) string {
	for _, kind := range []string{"session", "event", "task", "state", "page"} {
		for _, m := range random[kind].FindAllStringSubmatch(text, -1) {
			if x.names[m[1]] == "" {
				x.count[kind]++
				x.names[m[1]] = fmt.Sprintf("$%s%d", kind, x.count[kind])
			}
		}
	}
	for value, name := range x.names {
		text = strings.ReplaceAll(text, value, name)
	}
	return text
}

// name is one that stands for a random value.
var name = regexp.MustCompile(`\$[a-z]+\d+`)

// known replaces names by the values that they stand for.
func (x *transcript) known(text string) string {
	return name.ReplaceAllStringFunc(text, func(name string) string {
		for value, of := range x.names {
			if of == name {
				return value
			}
		}
		return name
	})
}
