package openai

import "net/url"

// Backend names who answers, for limits that all its models share: the provider alone
// for its usual server, else with the server's host, as in "openai@127.0.0.1:8080".
func (c *Client) Backend() string {
	u, err := url.Parse(c.opts.BaseURL)
	if err != nil || u.Host == "" || c.opts.Provider != provider || c.opts.BaseURL == defaultBaseURL {
		return c.opts.Provider // a provider that was given a name is one server
	}
	return provider + "@" + u.Host
}
