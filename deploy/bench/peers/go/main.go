// Command dtepeer is a reference for measurements of dted: a consumer invoice, issued by a service with net/http and
// PostgreSQL. It has no rules, no retries, no contingency.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

type peer struct {
	db            *pgxpool.Pool
	key           *rsa.PrivateKey
	form          document // the issuer, and what is the same in all documents
	establishment string
	tokens        map[string]int // the point of sale of each
	mh, auth      string
	client        *http.Client
}

func main() {
	p := &peer{establishment: os.Getenv("PEER_ESTABLISHMENT"), mh: os.Getenv("PEER_MH"), tokens: make(map[string]int),
		client: &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	if err := p.open(context.Background()); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("POST /dte/dte01", func(w http.ResponseWriter, r *http.Request) {
		status, answer := http.StatusCreated, any(nil)
		record, err := p.issue(r)
		if err != nil {
			status, answer = http.StatusInternalServerError, map[string]string{"status": "error",
				"message": err.Error()}
		} else {
			answer = map[string]any{"status": "success", "data": record}
		}
		body, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
	log.Fatal(http.ListenAndServe(os.Getenv("PEER_LISTEN"), nil))
}

func (p *peer) open(ctx context.Context) (err error) {
	if p.db, err = pgxpool.New(ctx, os.Getenv("PEER_DB")+" pool_max_conns=16"); err != nil {
		return err
	}
	text, err := os.ReadFile(os.Getenv("PEER_KEY"))
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("PEER_KEY is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	p.key = key.(*rsa.PrivateKey)
	if text, err = os.ReadFile(os.Getenv("PEER_FORM")); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &p.form); err != nil {
		return err
	}
	for point, token := range strings.Fields(os.Getenv("PEER_TOKENS")) {
		p.tokens[token] = point + 1
	}
	return p.login()
}

func (p *peer) login() error {
	resp, err := p.client.PostForm(p.mh+"/seguridad/auth", url.Values{"user": {os.Getenv("PEER_NIT")},
		"pwd": {os.Getenv("PEER_PASSWORD")}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Body struct{ Token string } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Body.Token == "" {
		return fmt.Errorf("no token: %w", cmp.Or(err, errors.New(resp.Status)))
	}
	p.auth = answer.Body.Token
	return nil
}

// record is the answer to a till.
type record struct {
	Code   string          `json:"codigoGeneracion"`
	Number string          `json:"numeroControl"`
	Estado string          `json:"estado"`
	JSON   json.RawMessage `json:"dteJson"`
	JWS    string          `json:"dteFirmado"`
	Sello  string          `json:"selloRecibido"`
}

func (p *peer) issue(r *http.Request) (*record, error) {
	point, ok := p.tokens[r.Header.Get("x-api-token")]
	if !ok {
		return nil, errors.New("unknown token")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var s sale
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, err
	}
	d, err := p.form.of(&s)
	if err != nil {
		return nil, err
	}
	rec := &record{Code: strings.ToUpper(uuid.NewString()), Estado: "PROCESSED"}
	ctx := r.Context()
	if err := p.store(ctx, rec, d, point); err != nil {
		return nil, err
	}
	if rec.Sello, err = p.send(ctx, rec); err != nil {
		return nil, err
	}
	_, err = p.db.Exec(ctx, "UPDATE document SET estado = $2, sello = $3 WHERE code = $1", rec.Code, rec.Estado,
		rec.Sello)
	return rec, err
}

// store numbers, signs and commits a document in one transaction.
func (p *peer) store(ctx context.Context, rec *record, d *document, point int) error {
	tx, err := p.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var last int64
	if err := tx.QueryRow(ctx, "UPDATE series SET last = last + 1 WHERE point = $1 RETURNING last",
		point).Scan(&last); err != nil {
		return err
	}
	sold := fmt.Sprintf("P%03d", point)
	rec.Number = fmt.Sprintf("DTE-01-%s%s-%015d", p.establishment, sold, last)
	now := time.Now().In(zone)
	i := &d.Identificacion
	i.Number, i.Code, i.Date, i.Time = rec.Number, rec.Code, now.Format(time.DateOnly), now.Format(time.TimeOnly)
	d.Emisor.Establishment, d.Emisor.Point = p.establishment, sold
	if rec.JSON, err = json.Marshal(d); err != nil {
		return err
	}
	if rec.JWS, err = p.sign(rec.JSON); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO document (code, number, jws) VALUES ($1, $2, $3)", rec.Code, rec.Number,
		rec.JWS); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

var zone = time.FixedZone("El Salvador", -6*60*60)

func (p *peer) sign(payload []byte) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS512"}`)) + "." + encode(payload)
	sum := sha512.Sum512([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, p.key, crypto.SHA512, sum[:])
	return text + "." + encode(signature), err
}

// send sends a document to MH, and returns its seal.
func (p *peer) send(ctx context.Context, rec *record) (string, error) {
	body, err := json.Marshal(map[string]any{"ambiente": "00", "idEnvio": 1, "version": p.form.Identificacion.Version,
		"tipoDte":   "01",
		"documento": rec.JWS, "codigoGeneracion": rec.Code})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.mh+"/fesv/recepciondte", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"dtepeer"}, "Authorization": {p.auth}}
	resp, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var answer struct{ Estado, SelloRecibido string }
	if err := json.Unmarshal(said, &answer); err != nil || answer.Estado != "PROCESADO" {
		return "", fmt.Errorf("MH refuses: %s", said)
	}
	return answer.SelloRecibido, nil
}
