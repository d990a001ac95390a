// Sells with the client that oapi-codegen makes of the contract, and prints what it read through the generated types.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"till/dte"
)

func main() {
	ctx := context.Background()
	client, err := dte.NewClientWithResponses(os.Getenv("DTE_URL"), dte.WithRequestEditorFn(func(_ context.Context, req *http.Request) error {
		req.Header.Set("x-api-token", os.Getenv("DTE_TOKEN"))
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	sale := dte.Solicitud01{
		Receptor: dte.ReceptorConsumidor{Nombre: new("Ana Morales"), TipoDocumento: new("13"), NumDocumento: new("012345678"), Correo: new("ana@example.com")},
		Items: []dte.Item{
			{Descripcion: "Equipo", Cantidad: 1, PrecioUnitario: 1234567.89, TipoImpuesto: new(dte.TipoImpuestoGRAVADO)},
			{Descripcion: "Flete", Cantidad: 1, PrecioUnitario: 1},
		},
		DescuentoGlobal:    &dte.DescuentoGlobal{Gravada: new(1.0)},
		CondicionOperacion: 1,
	}
	params := &dte.EmitirFacturaParams{IdempotencyKey: new("venta-go-1"), Prefer: new("wait=30")}
	for _, name := range []string{"sold", "again"} {
		r, err := client.EmitirFacturaWithResponse(ctx, params, sale)
		if err != nil || r.JSON201 == nil {
			log.Fatal(err, string(r.Body))
		}
		show(name, r.JSON201.Data)
		if name == "again" {
			read, err := client.ConsultarDocumentoWithResponse(ctx, r.JSON201.Data.CodigoGeneracion)
			if err != nil || read.JSON200 == nil {
				log.Fatal(err, string(read.Body))
			}
			show("read", read.JSON200.Data)
		}
	}
	sale.Items[0].Cantidad, sale.Items[1].PrecioUnitario = 0, 1.123456789
	params.IdempotencyKey = nil
	r, err := client.EmitirFacturaWithResponse(ctx, params, sale)
	if err != nil || r.JSON400 == nil {
		log.Fatal(err, string(r.Body))
	}
	refusal(*r.JSON400)
}

// refusal takes what any operation answers when it fails: all are of one type.
func refusal(e dte.Error) {
	fmt.Println("refused:", e.Type == dte.VALIDATIONERROR)
	for _, f := range e.Errors {
		fmt.Println("fault:", f.Path, f.Code)
	}
}

func show(name string, r dte.Registro) {
	fmt.Println(name+":", r.CodigoGeneracion, r.Estado, r.Total, r.SelloRecibido != nil && *r.SelloRecibido != "", r.ErrorTecnico == nil,
		amount(*r.DteJson.CuerpoDocumento[0].PrecioUni), amount(*r.DteJson.Resumen.TotalPagar), *r.DteJson.Identificacion.TipoDte)
}

func amount(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
