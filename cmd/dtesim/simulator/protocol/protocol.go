// Package protocol is MH's HTTP interface: the envelopes of its services, their answers, and the login. Package
// registry judges what protocol receives.
package protocol

import (
	"log/slog"
	"net/http"
	"sync"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
	"dtegate/cmd/dtesim/simulator/registry"
)

// Protocol is MH's side of the wire: one handler for each of its services. It is safe for concurrent use.
type Protocol struct {
	*hostility.Hostility
	reader   *document.Reader
	registry *registry.Registry
	issuers  map[string]document.Issuer // by NIT
	log      *slog.Logger

	mu       sync.Mutex
	sessions map[string]session // guarded by mu
}

// New returns the services of a registry, without sessions.
func New(h *hostility.Hostility, r *document.Reader, g *registry.Registry, issuers []document.Issuer,
	log *slog.Logger) *Protocol {
	p := &Protocol{Hostility: h, reader: r, registry: g, issuers: make(map[string]document.Issuer), log: log,
		sessions: make(map[string]session)}
	for _, i := range issuers {
		p.issuers[i.NIT] = i
	}
	return p
}

// Handler returns the handler of MH's services. Paths of MH that this edition lacks get a 404, as at MH.
func (s *Protocol) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, handler := range map[string]http.HandlerFunc{
		"/seguridad/auth":             s.login,
		"/fesv/recepciondte":          s.Disturbed(hostility.Documents, s.authenticated(s.receive)),
		"/fesv/recepcionlote":         s.Disturbed(hostility.Lots, s.authenticated(s.receiveLot)),
		"/fesv/contingencia":          s.Disturbed(hostility.Events, s.authenticated(s.receiveEvent)),
		"/fesv/anulardte":             s.Disturbed(hostility.Invalidations, s.authenticated(s.annul)),
		"/fesv/recepcion/consultadte": s.Disturbed(hostility.Queries, s.authenticated(s.query)),
	} {
		mux.HandleFunc(path, s.only(http.MethodPost, handler))
		mux.HandleFunc(path+"/{$}", s.only(http.MethodPost, handler))
	}
	lot := s.only(http.MethodGet, s.Disturbed(hostility.Queries, s.authenticated(s.queryLot)))
	mux.HandleFunc("/fesv/recepcion/consultadtelote/{lot}", lot)
	mux.HandleFunc("/fesv/recepcion/consultadtelote/{lot}/{$}", lot)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Fault(w, r, http.StatusNotFound, "No message available")
	})
	return s.Marked(s.Hostile(mux))
}

func (s *Protocol) only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			s.Fault(w, r, http.StatusMethodNotAllowed, "Request method '"+r.Method+"' not supported")
			return
		}
		next(w, r)
	}
}

// body reads the whole body of a request. If it cannot be read, body answers a 400 and returns false.
func (s *Protocol) body(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, err := hostility.ReadBody(w, r)
	if err != nil {
		s.Fault(w, r, http.StatusBadRequest, "Bad Request")
	}
	return body, err == nil
}
