package console

import (
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/mcpclient"
)

// tell fills in what a server asks without a form or a page: a request to the model, an answer of it,
// or a tool whose definition is another one than was accepted.
func (p *askPage) tell() error {
	a := p.Asked
	if s := a.Sampling; s != nil {
		p.Kinds.Sampling, p.Kinds.Sample = a.Sample == nil, a.Sample != nil
		if s.SystemPrompt != "" {
			p.Message = "" // which says the same
			p.Parts = append(p.Parts, part{"Instructions", bounded(s.SystemPrompt)})
		}
		for i := range s.Messages {
			for _, c := range s.Messages[i].Content {
				p.Parts = append(p.Parts, contentPart("From the "+string(s.Messages[i].Role), c))
			}
		}
		var names []string
		for i := range s.Tools {
			names = append(names, s.Tools[i].Name)
		}
		if len(names) > 0 {
			p.Parts = append(p.Parts, part{"With the server's tools", strings.Join(names, ", ")})
		}
		p.Parts = append(p.Parts, part{"At most", fmt.Sprintf("%d tokens", s.MaxTokens)})
	}
	if a.Sample != nil {
		for _, c := range a.Sample.Content {
			p.Answer = append(p.Answer, contentPart(a.Sample.Model, c))
		}
	}
	if a.Tool == nil {
		return nil
	}
	p.Kinds.Definition = true
	now, err := mcpclient.DefinitionText(a.Tool)
	if err != nil {
		return err
	}
	if a.Before == nil {
		p.Parts = append(p.Parts, part{"As it is now; of what it was only the hash is kept", now})
		return nil
	}
	before, err := mcpclient.DefinitionText(a.Before)
	if err != nil {
		return err
	}
	p.Changes = near(linediff.Lines(strings.Split(before, "\n"), strings.Split(now, "\n")))
	return nil
}
