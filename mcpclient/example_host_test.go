package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

func ExampleHost() {
	ctx := context.Background()
	host, err := mcpclient.NewHost(nil, []mcpclient.Server{mcpclient.InProcess("clock", clock{})}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()

	tools, err := host.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	res, err := host.Call(ctx, tools[0].Name, json.RawMessage(`{"city":"Basel"}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tools[0].Name, "says", res.Content[0].(*mcp.TextContent).Text)
	// Output: clock__time says noon
}

// clock is a server written by hand; with package mcpserver it takes three lines.
type clock struct{}

func (clock) Connect(sink mcp.Sink) (mcp.Link, error) { return clockLink{sink}, nil }

type clockLink struct{ sink mcp.Sink }

func (l clockLink) Send(m mcp.Outgoing) error {
	switch m.Method {
	case mcp.MethodDiscover:
		l.sink.Frame(mcp.AppendResult(nil, m.ID, []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}`)))
	case mcp.MethodListTools:
		l.sink.Frame(mcp.AppendResult(nil, m.ID, []byte(`{"tools":[{"name":"time","inputSchema":{"type":"object"}}],"resultType":"complete"}`)))
	case mcp.MethodCallTool:
		l.sink.Frame(mcp.AppendResult(nil, m.ID, []byte(`{"content":[{"type":"text","text":"noon"}],"resultType":"complete"}`)))
	}
	return nil
}

func (l clockLink) Close() error { l.sink.Lost(nil); return nil }
