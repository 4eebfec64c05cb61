package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// One handler serves every client: here one that opens no session.
func ExampleServer_Handler() {
	s, err := mcpserver.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = mcpserver.AddFunc(s, &mcp.Tool{Name: "greet"}, func(_ context.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name + ".", nil
	})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()

	r, err := http.NewRequest(http.MethodPost, web.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
		"name":"greet","arguments":{"name":"Ada"},
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		log.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "greet",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.StatusCode, strings.Contains(string(body), "Hello, Ada."))
	// Output: 200 true
}
