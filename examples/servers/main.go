// Servers gives an agent the tools of many MCP servers at once: one in this program, two of
// this repository as commands, and those of a .mcp.json if there is one. What does not start
// costs its tools and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

func main() {
	ctx := context.Background()
	servers, err := mcpclient.LoadConfig(".mcp.json") // the file that other hosts read
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	notebook := mcpclient.Command("go", "run", "./examples/notebook", "notes.db")
	notebook.Name = "notebook"
	servers = append(servers, notebook)

	model, err := discover.Default(ctx)
	if err == nil {
		err = run(ctx, model, servers, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// clock is a server in this program: no process, no wire.
func clock() (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "clock", Version: "1.0.0"}, nil)
	if err != nil {
		return nil, err
	}
	return s, mcpserver.AddFunc(s, &mcp.Tool{Name: "now", Description: "Tells the time.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, struct{}) (string, error) { return time.Now().Format(time.RFC1123), nil })
}

func run(ctx context.Context, model llm.Model, servers []mcpclient.Server, out io.Writer) error {
	inside, err := clock()
	if err != nil {
		return err
	}
	defer inside.Close()
	own := mcpclient.InProcess("clock", inside)
	own.Trusted = true // what it says of its tools counts: reading the clock needs no approval

	rt, err := agent.Open(ctx, &agent.Options{
		Model:   model,
		Servers: append(servers, own),
		// A server that a file names starts only with consent. This program trusts its folder.
		Consent: func(context.Context, mcpclient.Server) error { return nil },
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	all, err := rt.Servers(ctx) // waits until each is ready or has failed
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Err != nil {
			fmt.Fprintf(out, "%s: %v\n", s.Name, s.Err)
			continue
		}
		fmt.Fprintf(out, "%s: %d tools, MCP %s\n", s.Name, s.Tools, s.Info.Version)
	}
	res, err := rt.Run(ctx, "What time is it?")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, res.Text)
	return nil
}
