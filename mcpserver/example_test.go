package mcpserver_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type GreetIn struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

type GreetOut struct {
	Greeting string `json:"greeting"`
}

// A tool whose schemas come from Go types. A real server calls ServeStdio; here
// the client is one line of text.
func ExampleAddTool() {
	s, err := mcpserver.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets someone."},
		func(ctx context.Context, req *mcpserver.ToolRequest, in GreetIn) (GreetOut, error) {
			req.Progress(1, 2, "thinking of something nice")
			return GreetOut{"Hello, " + in.Name + "."}, ctx.Err()
		})
	if err != nil {
		log.Fatal(err)
	}

	client := strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}`)
	if err := s.Serve(context.Background(), client, stdout{}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"greeter","version":"1"}}}
	// {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"greeting\":\"Hello, Ada.\"}"}],"structuredContent":{"greeting":"Hello, Ada."}}}
}

// stdout can be closed without closing standard output.
type stdout struct{}

func (stdout) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdout) Close() error                { return nil }

// printer is a client that prints what the server says.
type printer struct{ said chan string }

func (p printer) Frame(frame []byte) { p.said <- string(frame) }
func (p printer) Lost(error)         { close(p.said) }

// A server and its client in one process, for tests.
func ExampleServer_Connect() {
	s, err := mcpserver.New(mcp.Implementation{Name: "adder", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = mcpserver.AddFunc(s, &mcp.Tool{Name: "add"}, func(_ context.Context, in struct{ A, B int }) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	})
	if err != nil {
		log.Fatal(err)
	}

	client := printer{said: make(chan string, 1)}
	link, err := s.Connect(client)
	if err != nil {
		log.Fatal(err)
	}
	defer link.Close()
	request := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"A":2,"B":40},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if err := link.Send(mcp.Outgoing{Frame: []byte(request)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-client.said)
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"42"}],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"adder","version":"1"}}}}
}
