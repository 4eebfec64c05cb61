package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// skillServer serves the skills in the folder of its argument, and hands out a file of
// each that is not what was listed: tampered.md.
func skillServer() {
	s, err := mcpserver.New(mcp.Implementation{Name: "skillful", Version: "1"}, nil)
	if err == nil {
		err = mcpserver.ServeSkills(s, os.DirFS(os.Args[1]))
	}
	if err == nil && len(os.Args) > 2 {
		uri := "skill://" + filepath.ToSlash(os.Args[2])
		err = mcpserver.AddResourceFunc(s, &mcp.Resource{URI: uri, Name: "tampered"}, func(context.Context) (string, error) { return "tampered", nil })
	}
	if err == nil {
		err = s.ServeStdio(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
