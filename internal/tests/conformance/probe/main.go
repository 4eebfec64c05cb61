// Command probe drives the client from another program: it reads one JSON object a
// line from stdin and answers each, in order, with one line on stdout. Logs go to
// stderr. It ends with its input.
//
//	{"op":"connect","transport":"stdio","command":[…],"env":{…}}     env replaces the environment
//	{"op":"connect","transport":"http","url":"…"}                    or "sse": HTTP+SSE of 2024-11-05
//	    "protocolVersion":"auto"|DATE, "timeoutMs":N, "roots":[…], "sampling":{…}, "elicitation":{…}
//	    → {"ok":true,"protocolVersion":…,"serverInfo":…,"capabilities":…,"instructions":…}
//	{"op":"request","method":"…","params":{…},"progress":true,"timeoutMs":N}
//	    → {"ok":true,"result":{…}}
//	{"op":"seen"}  → {"ok":true,"notifications":[{"method","params"}],"requests":[…]}
//	{"op":"close"} → {"ok":true}
//
// What goes wrong is {"ok":false,"error":{"code","message","data"}}: the server's
// error as it came, else one of ours: -32700 for a line that is no JSON object, -32600
// and -32602 for an order that makes no sense, -32001 for a time limit, else -32000.
//
// roots, sampling and elicitation are the answers to what a server asks; without them
// it gets no roots, an error and a decline.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// maxLine bounds one line of the input, in bytes.
const maxLine = 64 << 20

func main() {
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// serve answers line after line until the input ends.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	p := new(probe)
	defer p.close()
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines)
		ended := errors.Is(err, io.EOF)
		if ended && len(line) == 0 {
			return nil
		}
		var answer any
		switch {
		case errors.Is(err, errTooLong):
			answer = failed(mcp.Errorf(mcp.CodeParse, "%v", err))
		case err != nil && !ended:
			return fmt.Errorf("reading: %w", err)
		default:
			answer = p.answer(ctx, line)
		}
		raw, err := jsonx.Marshal(answer)
		if err != nil {
			raw, err = jsonx.Marshal(failed(err))
		}
		if err != nil {
			return err
		}
		if _, err := out.Write(append(raw, '\n')); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		if ended {
			return nil
		}
	}
}

var errTooLong = errors.New("the line is too long")

// readLine reads up to a newline and passes over what is longer than maxLine. At the
// end of the input the rest comes with [io.EOF].
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		default:
			return line, err
		}
	}
}

// order is one line of the input.
type order struct {
	Op        string `json:"op"`
	TimeoutMs int64  `json:"timeoutMs"`

	Transport       string                   `json:"transport"`
	Command         []string                 `json:"command"`
	Env             *map[string]string       `json:"env"`
	URL             string                   `json:"url"`
	ProtocolVersion string                   `json:"protocolVersion"`
	Roots           []mcp.Root               `json:"roots"`
	Sampling        *mcp.CreateMessageResult `json:"sampling"`
	Elicitation     *mcp.ElicitResult        `json:"elicitation"`

	Method   string          `json:"method"`
	Params   json.RawMessage `json:"params"`
	Progress bool            `json:"progress"`
}

// message is a notification or a request that was seen.
type message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitzero"`
}

// The answers.
type (
	okay struct {
		OK bool `json:"ok"`
	}
	connected struct {
		OK              bool                   `json:"ok"`
		ProtocolVersion mcp.Version            `json:"protocolVersion"`
		ServerInfo      *mcp.Implementation    `json:"serverInfo"`
		Capabilities    mcp.ServerCapabilities `json:"capabilities"`
		Instructions    string                 `json:"instructions"`
	}
	result struct {
		OK     bool            `json:"ok"`
		Result json.RawMessage `json:"result"`
	}
	seen struct {
		OK            bool      `json:"ok"`
		Notifications []message `json:"notifications"`
		Requests      []message `json:"requests"`
	}
	failure struct {
		OK    bool       `json:"ok"`
		Error *mcp.Error `json:"error"`
	}
)
