package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits of a request for text.
const (
	fetchTimeout = 20 * time.Second
	fetchMax     = 64 << 20
)

// Fetch reads text, such as metrics, from a URL or from a path at the API server, which may have
// a query.
func (d Deps) Fetch(ctx context.Context, at string) ([]byte, error) {
	server := http.DefaultClient
	if strings.HasPrefix(at, "/") {
		proxy, base, err := d.APIServer()
		if err != nil {
			return nil, err
		}
		path, query, _ := strings.Cut(at, "?")
		found := base.JoinPath(path)
		found.RawQuery = query
		server, at = proxy, found.String()
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := server.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, fetchMax))
}
