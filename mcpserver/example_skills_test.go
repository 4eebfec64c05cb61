package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// A server that publishes a folder of skills, as os.DirFS("skills") or an embed.FS is.
func ExampleServeSkills() {
	s, err := mcpserver.New(mcp.Implementation{Name: "docs", Version: "1"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	skills := fstest.MapFS{
		"pdf/SKILL.md":            {Data: []byte("---\nname: pdf\ndescription: Fills in forms.\n---\nSee references/FORMS.md.\n")},
		"pdf/references/FORMS.md": {Data: []byte("# Forms\n")},
	}
	if err := mcpserver.ServeSkills(s, skills); err != nil {
		log.Fatal(err)
	}

	client := printer{said: make(chan string, 1)}
	link, err := s.Connect(client)
	if err != nil {
		log.Fatal(err)
	}
	defer link.Close()
	request := `{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":"skill://pdf/SKILL.md","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if err := link.Send(mcp.Outgoing{Frame: []byte(request)}); err != nil {
		log.Fatal(err)
	}
	var answer struct {
		Result mcp.GetSkillResult
	}
	if err := json.Unmarshal([]byte(<-client.said), &answer); err != nil {
		log.Fatal(err)
	}
	name, description := answer.Result.Skill.Name()
	fmt.Println(name, "-", description)
	for _, file := range answer.Result.Skill.Resources {
		fmt.Println(file.URI, file.Size)
	}
	// Output:
	// pdf - Fills in forms.
	// skill://pdf/SKILL.md 72
	// skill://pdf/references/FORMS.md 8
}
