package protocol

import (
	"context"
	"crypto/hmac"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"time"

	"dtegate/cmd/dtesim/simulator/document"
	"dtegate/cmd/dtesim/simulator/hostility"
)

// Lifetimes of a token (MT1 §3.1).
const (
	testTokenLife       = 48 * time.Hour
	productionTokenLife = 24 * time.Hour
)

type session struct {
	nit     string
	expires time.Time
}

type issuerKey struct{}

// holder returns the issuer whose token an authenticated request bears.
func holder(r *http.Request) document.Issuer { return r.Context().Value(issuerKey{}).(document.Issuer) }

// login is POST /seguridad/auth: a form with user and pwd. Errors come with HTTP 200 (MT1 §4.1).
func (s *Protocol) login(w http.ResponseWriter, r *http.Request) {
	if !s.headed(w, r, "application/x-www-form-urlencoded") {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if err := r.ParseForm(); err != nil {
		s.Fault(w, r, http.StatusBadRequest, "Bad Request")
		return
	}
	if code := s.Hostilities().LoginCode; code != 0 {
		s.Reply(w, r, http.StatusOK, map[string]string{"status": "ERROR", "error": "Unauthorized",
			"codigo": strconv.Itoa(code), "message": hostility.LoginTexts[code]})
		return
	}
	user, password := r.PostForm.Get("user"), r.PostForm.Get("pwd")
	issuer, known := s.issuers[user]
	if !known {
		s.unauthorised(w, r, "Usuario no valido")
		return
	}
	if subtle.ConstantTimeCompare([]byte(password), []byte(issuer.Password)) != 1 {
		s.unauthorised(w, r, "Credenciales invalidas")
		return
	}
	s.Reply(w, r, http.StatusOK, map[string]any{
		"status": "OK",
		"body": map[string]any{
			"user":  user,
			"token": "Bearer " + s.token(user),
			"rol": map[string]any{
				"nombre": "Usuario", "codigo": "ROLE_USER", "descripcion": nil, "rolSuperior": nil,
				"nivel": nil, "activo": nil, "permisos": nil,
			},
			"roles":     []string{"ROLE_USER"},
			"tokenType": "Bearer",
		},
	})
}

func (s *Protocol) unauthorised(w http.ResponseWriter, r *http.Request, message string) {
	s.Reply(w, r, http.StatusOK, map[string]string{"status": "ERROR", "error": "Unauthorized", "message": message})
}

// token opens a session and returns its token. The token looks like MH's JWT (HS512), but it is looked up and not
// verified; therefore it ends with the process.
func (s *Protocol) token(nit string) string {
	now := s.Now()
	life := testTokenLife
	if s.reader.AllowProduction {
		life = productionTokenLife
	}
	id, secret := s.registry.UUID(), s.registry.UUID()
	enc := base64.RawURLEncoding
	claims, err := json.Marshal(map[string]any{
		"sub": nit, "authorities": []string{"ROLE_USER"}, "jti": enc.EncodeToString(id[:]),
		"iat": now.Unix(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		panic("simulator: encoding claims: " + err.Error())
	}
	head := enc.EncodeToString([]byte(`{"alg":"HS512"}`)) + "." + enc.EncodeToString(claims)
	mac := hmac.New(sha512.New, secret[:])
	mac.Write([]byte(head))
	token := head + "." + enc.EncodeToString(mac.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, open := range s.sessions {
		if !now.Before(open.expires) {
			delete(s.sessions, old)
		}
	}
	s.sessions[token] = session{nit: nit, expires: now.Add(life)}
	return token
}

// authenticated passes a request to next if its Authorization is exactly the token as login gave it, "Bearer "
// included. A second "Bearer" is a 401, as observed.
func (s *Protocol) authenticated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		nit, ok := s.session(r.Header.Get("Authorization"))
		if !ok || s.Take(func(c *hostility.Chaos) *int { return &c.ExpiredTokens }) {
			s.Fault(w, r, http.StatusUnauthorized, "Unauthorized")
			return
		}
		if !s.headed(w, r, "application/json") {
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), issuerKey{}, s.issuers[nit])))
	}
}

func (s *Protocol) session(authorization string) (nit string, ok bool) {
	const scheme = "Bearer "
	if len(authorization) <= len(scheme) || authorization[:len(scheme)] != scheme {
		return "", false
	}
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	open, known := s.sessions[authorization[len(scheme):]]
	return open.nit, known && now.Before(open.expires)
}

// headed checks that a request has the headers that MT1 §4 requires for every service.
func (s *Protocol) headed(w http.ResponseWriter, r *http.Request, kind string) bool {
	if r.UserAgent() == "" {
		s.Fault(w, r, http.StatusUnauthorized, "Unauthorized")
		return false
	}
	if r.Method != http.MethodPost { // nothing is sent
		return true
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != kind {
		s.Fault(w, r, http.StatusUnsupportedMediaType, "Content type '"+r.Header.Get("Content-Type")+"' not supported")
		return false
	}
	return true
}
