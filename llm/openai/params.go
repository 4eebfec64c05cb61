package openai

import (
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// sends reports whether an optional field is sent, and notes that it is.
func (a *attempt) sends(f field) bool {
	if a.omit&f != 0 {
		return false
	}
	a.sent |= f
	return true
}

// maxStops is how many stop sequences OpenAI takes, and many others with it.
const maxStops = 4

// stops returns the stop sequences that the server looks for, and those that it is not
// given, because they are too many, or its model or its API has none.
func (c *Client) stops(req *llm.Request, a *attempt) [2][]string {
	n := min(len(req.Stop), maxStops)
	if a.api == APIResponses || generationOf(a.own.Model).reasons() {
		n = 0
	}
	return [2][]string{req.Stop[:n:n], req.Stop[n:]}
}

// leastTemperature stands for zero, which go-openai would leave out. Ollama's runner dies
// of much smaller ones, since it divides by them.
const leastTemperature = 1e-5

// limit is the limit of the output; 0 for none.
func (c *Client) limit(req *llm.Request, a *attempt) int {
	if req.MaxTokens > 0 && a.sends(fieldLimit) {
		return req.MaxTokens
	}
	return 0
}

// temperature is nil where there is none, or the model takes none.
func (c *Client) temperature(req *llm.Request, a *attempt) *float32 {
	if req.Temperature == nil || generationOf(a.own.Model).reasons() || !a.sends(fieldTemperature) {
		return nil
	}
	return new(max(float32(*req.Temperature), leastTemperature))
}

// oneCall reports whether the model is asked for one call at most.
func (c *Client) oneCall(a *attempt) bool { return c.opts.OneCall && a.sends(fieldOneCall) }

// sendsTools reports whether tools are sent. With "none" chat completions have them only where the conversation has calls, which
// some servers refuse to see without them.
func (c *Client) sendsTools(req *llm.Request, a *attempt) bool {
	return len(req.Tools) > 0 && (req.ToolChoice != llm.ToolChoiceNone || a.api == APIResponses || rest.HasCalls(req))
}

// isOpenAI reports whether the server is OpenAI's own, which refuses max_tokens for its
// newer models.
func (c *Client) isOpenAI() bool {
	host := c.address.Hostname()
	return host == "openai.com" || strings.HasSuffix(host, ".openai.com")
}

// commonEfforts are those that most servers take for models that think.
var commonEfforts = []llm.Effort{llm.EffortNone, llm.EffortLow, llm.EffortMedium, llm.EffortHigh}

// effort is the nearest effort that the model takes, in the servers' word for it.
func (c *Client) effort(req *llm.Request, a *attempt) string {
	effort := req.Effort
	if a.unthinking && len(req.Tools) > 0 {
		effort = llm.EffortNone
	}
	switch {
	case a.omit&fieldEffort != 0:
		return ""
	case effort == "":
		if c.opts.ReasoningEffort != "" {
			a.sent |= fieldEffort
		}
		return c.opts.ReasoningEffort
	case a.switched && a.api == APIChat && a.sends(fieldSwitch) && effort == llm.EffortNone:
		return ""
	}
	if a.efforts = a.habits.efforts; a.efforts == 0 {
		a.efforts = setOf(generationOf(a.own.Model).efforts()...)
	}
	if a.efforts == 0 && !c.isOpenAI() { // its models of which nothing is known do not think, and refuse the field
		a.efforts = setOf(commonEfforts...)
	}
	if a.effort = effort.Nearest(a.efforts.list()); a.effort != "" {
		a.sent |= fieldEffort
	}
	return string(a.effort)
}

func (c *Client) metadata(req *llm.Request) map[string]string {
	var sent map[string]string
	for _, key := range c.opts.MetadataKeys {
		if v, ok := req.Metadata[key]; ok {
			if sent == nil {
				sent = make(map[string]string)
			}
			sent[key] = v
		}
	}
	return sent
}
