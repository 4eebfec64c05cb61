package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"
)

// ioWait bounds each write and each answer.
const ioWait = 20 * time.Second

// conn is one HTTP/1.1 connection, kept alive.
type conn struct {
	net.Conn
	r    *bufio.Reader
	body []byte // of the last answer, used again
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, ioWait)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 32<<10)}, nil
}

func (c *conn) close() { c.Conn.Close() }

// reply is the head of an answer, and its body once read.
type reply struct {
	status  int
	session string
	stream  bool // of events
	chunked bool
	length  int // -1: until the connection ends
	body    []byte
}

// do sends a whole request and reads the whole answer. The body is valid until the next.
func (c *conn) do(request []byte) (reply, error) {
	if err := c.send(request); err != nil {
		return reply{}, err
	}
	r, err := c.head()
	if err != nil {
		return r, err
	}
	r.body, err = c.rest(&r)
	return r, err
}

func (c *conn) send(request []byte) error {
	c.SetDeadline(time.Now().Add(ioWait))
	_, err := c.Write(request)
	return err
}

// head reads the status and the headers.
func (c *conn) head() (reply, error) {
	r := reply{length: -1}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return r, fmt.Errorf("reading the status: %w", err)
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return r, fmt.Errorf("status line: got %q", line)
	}
	if r.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return r, fmt.Errorf("status line: got %q", line)
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return r, fmt.Errorf("reading the headers: %w", err)
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if r.length, err = strconv.Atoi(string(value)); err != nil {
				return r, fmt.Errorf("header: got %q", line)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			r.chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Mcp-Session-Id")):
			r.session = string(value)
		case bytes.EqualFold(name, []byte("Content-Type")):
			r.stream = bytes.HasPrefix(value, []byte("text/event-stream"))
		}
	}
	if r.status == 204 || r.status == 304 {
		r.length = 0
	}
	return r, nil
}

// rest reads the body.
func (c *conn) rest(r *reply) ([]byte, error) {
	body := bytes.NewBuffer(c.body[:0])
	var err error
	switch {
	case r.chunked:
		if _, err = body.ReadFrom(httputil.NewChunkedReader(c.r)); err == nil {
			_, err = c.r.Discard(2) // there are no trailers
		}
	case r.length >= 0:
		_, err = io.CopyN(body, c.r, int64(r.length))
	default:
		err = errors.New("the answer has no length")
	}
	c.body = body.Bytes()
	if err != nil {
		return nil, fmt.Errorf("reading the body of a %d: %w", r.status, err)
	}
	return c.body, nil
}

// events calls take with the data of each event until the stream ends.
func (c *conn) events(take func(data []byte) error) error {
	lines := bufio.NewReaderSize(httputil.NewChunkedReader(c.r), 128<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			_, err = c.r.Discard(2)
			return err
		}
		if err != nil {
			return fmt.Errorf("reading a stream: %w", err)
		}
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			if err := take(bytes.TrimSpace(data)); err != nil {
				return err
			}
		}
	}
}

// httpRequest returns a whole request; extra are more header lines.
func httpRequest(method, addr, body string, extra ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s /mcp HTTP/1.1\r\nHost: %s\r\n", method, addr)
	switch method {
	case "GET":
		b.WriteString("Accept: text/event-stream\r\n")
	case "POST":
		fmt.Fprintf(&b, "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", len(body))
	}
	for _, line := range extra {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return []byte(b.String())
}

// The headers of a legacy session and of a modern call.
func sessionHeaders(id string) []string {
	return []string{"MCP-Protocol-Version: 2025-11-25", "Mcp-Session-Id: " + id}
}

func modernHeaders(tool string) []string {
	return []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: " + tool}
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"bench","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	modernMeta  = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// open opens a session and returns its id.
func (c *conn) open(addr string) (string, error) {
	res, err := c.do(httpRequest("POST", addr, initialize))
	if err != nil {
		return "", fmt.Errorf("initialize: %w", err)
	}
	if res.status != 200 || res.session == "" || !bytes.Contains(res.body, []byte("protocolVersion")) {
		return "", fmt.Errorf("initialize: got %d, session %q, %.200q", res.status, res.session, res.body)
	}
	ack, err := c.do(httpRequest("POST", addr, initialized, sessionHeaders(res.session)...))
	if err == nil && ack.status != 202 {
		err = fmt.Errorf("got %d %.200q, want 202", ack.status, ack.body)
	}
	if err != nil {
		return "", fmt.Errorf("notifications/initialized: %w", err)
	}
	return res.session, nil
}

// openMany opens n sessions over one connection.
func openMany(addr string, n int) ([]string, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ids := make([]string, n)
	for i := range ids {
		if ids[i], err = c.open(addr); err != nil {
			return nil, fmt.Errorf("session %d: %w", i, err)
		}
	}
	return ids, nil
}
