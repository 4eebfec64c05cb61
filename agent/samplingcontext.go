package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	// maxSampleContext bounds what is added to a server's request, in bytes.
	maxSampleContext = 32 << 10
	// contextPages bounds how much of a journal is read for it.
	contextPages = 64
)

// addContext adds to a request what its includeContext wishes, as far as the server was
// granted it (SAMP-07): to the system prompt, where the person who reviews the request
// sees it, as does everybody whom it is shown to.
func (s *samplingService) addContext(ctx context.Context, one *serverAccount, run string, p *mcp.CreateMessageParams) error {
	wish := p.IncludeContext
	p.IncludeContext = mcp.ContextNone
	if one.policy.Context == "" || wish != mcp.ContextThisServer && wish != mcp.ContextAllServers {
		return nil
	}
	all := wish == mcp.ContextAllServers && one.policy.Context == mcp.ContextAllServers
	var parts []string
	if text := s.instructions(one.name); text != "" {
		parts = append(parts, fmt.Sprintf("The server %s says of itself:\n%s", one.name, text))
	}
	if run != "" {
		calls, err := s.callsOf(ctx, run, func(server string) bool { return server != "" && (all || server == one.name) })
		if err != nil {
			return err
		}
		parts = append(parts, newest(calls, maxSampleContext)...)
	}
	if len(parts) > 0 {
		p.SystemPrompt = joinText(p.SystemPrompt, "What has been done before:\n\n"+strings.Join(parts, "\n\n"))
	}
	return nil
}

// callsOf tells the calls that a run has made of servers, in their order.
func (s *samplingService) callsOf(ctx context.Context, run string, of func(server string) bool) ([]string, error) {
	var told []string
	arguments := make(map[string]string)
	after := int64(0)
	for range contextPages {
		page, err := s.journal.Events(ctx, run, after, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the run's journal: %w", err)
		}
		if len(page) == 0 {
			break
		}
		for _, ev := range page {
			after = ev.Seq
			e, err := runlog.Decode(ev)
			if err != nil {
				return nil, err
			}
			switch b := e.Body.(type) {
			case *runlog.ToolIntent:
				if of(b.Server) {
					arguments[e.Key] = string(b.Arguments)
				}
			case *runlog.ToolResult:
				if of(b.Server) && b.Made {
					told = append(told, fmt.Sprintf("The tool %s of the server %s was called with %s and has answered:\n%s",
						b.Tool, b.Server, arguments[e.Key], clipText(b.Result.Content.Text(), maxSampleContext/4)))
				}
				delete(arguments, e.Key)
			}
		}
	}
	return told, nil
}

// newest keeps the last texts that fit.
func newest(texts []string, most int) []string {
	size := 0
	for i, text := range slices.Backward(texts) {
		if size += len(text); size > most {
			return texts[i+1:]
		}
	}
	return texts
}

func clipText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
