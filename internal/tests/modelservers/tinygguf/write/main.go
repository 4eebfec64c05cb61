// Command write writes the model of a spec: go run ./modelservers/tinygguf/write
// -spec spec.json -o tiny.gguf.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
)

func main() {
	in := flag.String("spec", "", "`FILE` with the spec, JSON")
	template := flag.String("template", "", "`FILE` with the chat template, Jinja (default: the spec's)")
	out := flag.String("o", "tiny.gguf", "`FILE` to write")
	flag.Parse()
	if err := write(*in, *template, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(in, template, out string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	spec, err := tinygguf.ParseSpec(data)
	if err != nil {
		return err
	}
	if template != "" {
		data, err := os.ReadFile(template)
		if err != nil {
			return fmt.Errorf("reading the template: %w", err)
		}
		spec.ChatTemplate = string(data)
	}
	model, err := spec.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, model, 0o644); err != nil {
		return fmt.Errorf("writing the model: %w", err)
	}
	return nil
}
