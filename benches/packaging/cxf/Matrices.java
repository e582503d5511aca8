// The service as CXF sees it: the matrix as elements, and as data that CXF attaches.

import jakarta.activation.DataHandler;
import jakarta.jws.WebMethod;
import jakarta.jws.WebParam;
import jakarta.jws.WebResult;
import jakarta.jws.WebService;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlMimeType;

@WebService(name = "Matrices", targetNamespace = Matrices.NAMESPACE)
public interface Matrices {
    String NAMESPACE = "urn:fishplate:bench:matrix";

    /** Arrays of primitives, not lists: no object is made for a number. */
    @XmlAccessorType(XmlAccessType.FIELD)
    final class Row {
        public float[] item;
    }

    @XmlAccessorType(XmlAccessType.FIELD)
    final class Rows {
        public Row[] row;

        static Rows of(float[][] matrix) {
            Rows rows = new Rows();
            rows.row = new Row[matrix.length];
            for (int i = 0; i < matrix.length; i++) {
                rows.row[i] = new Row();
                rows.row[i].item = matrix[i];
            }
            return rows;
        }

        float[][] matrix() {
            float[][] matrix = new float[row.length][];
            for (int i = 0; i < row.length; i++) {
                matrix[i] = row[i].item;
            }
            return matrix;
        }
    }

    @WebMethod
    @WebResult(name = "matrix")
    Rows echo(@WebParam(name = "matrix") Rows matrix);

    @WebMethod
    @WebResult(name = "matrix")
    Rows getMatrix(@WebParam(name = "n") int n);

    @WebMethod
    @WebResult(name = "data")
    @XmlMimeType("application/octet-stream")
    DataHandler echoData(@WebParam(name = "data") @XmlMimeType("application/octet-stream") DataHandler data);

    @WebMethod
    @WebResult(name = "data")
    @XmlMimeType("application/octet-stream")
    DataHandler getData(@WebParam(name = "n") int n);
}
