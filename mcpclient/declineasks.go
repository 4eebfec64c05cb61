package mcpclient

// DeclineAsks declines all questions of the server from now on, those that are open
// included, or no longer does so.
func (c *Client) DeclineAsks(on bool) { c.questions.asks.Limits.Decline(on) }

// DeclineAsks is [Client.DeclineAsks] of a server.
func (h *Host) DeclineAsks(server string, on bool) error {
	c, err := h.Client(server)
	if err == nil {
		c.DeclineAsks(on)
	}
	return err
}
