// Sells with the types that openapi-typescript makes of the contract, and prints what it read through them.
import createClient from "openapi-fetch";
import type { components, paths } from "./dte.js";

type Registro = components["schemas"]["Registro"];

// @ts-expect-error a note without its items is none: the contract gives a note a type
const noNote: components["schemas"]["Solicitud05"] = { codigoGeneracion: null };
void noNote;

const client = createClient<paths>({ baseUrl: process.env.DTE_URL ?? "", headers: { "x-api-token": process.env.DTE_TOKEN } });

const sale: components["schemas"]["Solicitud01"] = {
  receptor: { nombre: "Ana Morales", tipoDocumento: "13", numDocumento: "012345678", correo: "ana@example.com" },
  items: [
    { descripcion: "Equipo", cantidad: 1, precioUnitario: 1234567.89, tipoImpuesto: "GRAVADO", codigo: null },
    { descripcion: "Flete", cantidad: 1, precioUnitario: 1 },
  ],
  descuentoGlobal: { gravada: 1 },
  condicionOperacion: 1,
};

function show(name: string, r: Registro) {
  console.log(`${name}:`, r.codigoGeneracion, r.estado, r.total, !!r.selloRecibido, r.errorTecnico === null,
    String(r.dteJson.cuerpoDocumento[0]?.precioUni), String(r.dteJson.resumen?.totalPagar), r.dteJson.identificacion.tipoDte);
}

const header = { "Idempotency-Key": "venta-ts-1", Prefer: "wait=30" };
for (const name of ["sold", "again"]) {
  const { data, error } = await client.POST("/dte/dte01", { body: sale, params: { header } });
  if (!data) throw new Error(error.message);
  if ("valido" in data.data) throw new Error("validated, not sold");
  show(name, data.data);
  if (name === "again") {
    const codigoGeneracion = data.data.codigoGeneracion;
    const read = await client.GET("/dte/documento/{codigoGeneracion}", { params: { path: { codigoGeneracion } } });
    if (!read.data) throw new Error(read.error.message);
    show("read", read.data.data);
  }
}

sale.items[0]!.cantidad = 0;
sale.items[1]!.precioUnitario = 1.123456789;
const { error } = await client.POST("/dte/dte01", { body: sale });
if (!error) throw new Error("a wrong sale was taken");
refusal(error);

// refusal takes what any operation answers when it fails: all are of one type.
function refusal(e: components["schemas"]["Error"]) {
  console.log("refused:", e.type === "VALIDATION_ERROR");
  for (const f of e.errors) console.log("fault:", f.path, f.code);
}
